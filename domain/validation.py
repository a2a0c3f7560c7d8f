"""From pydantic's complaints to our own: the first one, with its place, and never with the input."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pydantic import ValidationError

from domain.errors import Invalid
from domain.json_reader import place_of

PLAIN_TEXT: Final = r"^[^\x00-\x1F\x7F-\x9F]*$"
PROSE: Final = r"^[^\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x9F]*$"
URI_REFERENCE: Final = r"^(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*$"

_REASONS: Final = {
    "missing": "is required",
    "model_type": "must be a JSON object",
    "extra_forbidden": "is not a field here",
    "string_type": "must be a string",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
    "list_type": "must be a list of {items}",
    "tuple_type": "must be a list of {items}",
    "frozen_set_type": "must be a list of {items}",
    "dict_type": "must be a JSON object",
    "mapping_type": "must be a JSON object",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
}
_PATTERNS: Final = {
    PLAIN_TEXT: "must not hold control characters",
    PROSE: "must not hold control characters other than tabs and line ends",
    URI_REFERENCE: "must be a URI reference (RFC 3986), with other characters percent-encoded",
}


def placed(error: Invalid, path: Sequence[str | int]) -> Invalid:
    """Give the same complaint of the place as its reader knows it, for instance below the wrapping of an event."""
    return replace(error, place=place_of(path), path=tuple(path))


def invalid_from(error: ValidationError, items: str = "values") -> Invalid:
    """Give the first complaint of a validation as our kind of error; `items` is what its lists hold."""
    first = error.errors(include_input=False, include_url=False)[0]
    context = {**first.get("ctx", {}), "items": items}
    reason = _PATTERNS.get(str(context.get("pattern"))) or _REASONS.get(first["type"], "").format_map(context)
    path = (*first["loc"], *context.get("below", ()))
    return Invalid(place_of(path), reason or first["msg"].removeprefix("Value error, "), path=path)
