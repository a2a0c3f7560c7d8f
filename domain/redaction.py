"""What a reader of payloads gets to see, whatever the writers put in (R-403, FC-29; docs/adr/0014).

`redact` and `mask_text` are pure: they build new values and leave what they are given as it is. Both fail closed:
whatever they do not expect makes the answer masked whole. Both may be applied again without further effect.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from domain.errors import Invalid
from domain.json_reader import refuse
from domain.redaction_marks import MASK
from domain.redaction_names import MAX_RUN, NameRules, can_match
from domain.redaction_walk import Rules, SafePaths, Walk, safe_paths
from domain.validation import invalid_from

ANY_TYPE: Final = "*"
MAX_JSON_DEPTH: Final = 8
MIN_KEY_BYTES: Final = 16
MAX_KEY_BYTES: Final = 1024
MAX_PLACES: Final = 1000
ELSEWHERE: Final = "(elsewhere)"

_Name = Annotated[str, Field(min_length=1, max_length=128)]
_Names = Annotated[frozenset[_Name], Field(max_length=1000)]
_Path = Annotated[str, Field(pattern=r"^[^.]{1,128}(\.[^.]{1,128}){0,15}$")]


@dataclass(frozen=True)
class RedactionPolicy:
    """What is masked, beyond what always is.

    A dataclass: a model of pydantic would take longer to build than all else here together, in every cold start.

    Attributes:
        secret_names: further names of secrets, in any spelling style; their values are masked, never pseudonyms.
        personal_names: further names of personal data, in any spelling style.
        plain_names: names that are neither, whatever words they hold, such as `token_ring`.
        safe: for each event type (`*`: for all), dotted paths of members that are shown; lists on the way need no
            step. What is secret by its form, or by a name further down, is masked there too.
        mask_ips: whether IP addresses are personal data.
        json_depth: how many levels of JSON inside strings are looked into, at most 8; deeper ones are masked whole.
        pseudonym_key: 16 to 1024 bytes. With it, equal personal values get equal pseudonyms in place of masks.

    Raises:
        Invalid: the depth or the key is out of bounds, or a name could never be found.
    """

    secret_names: frozenset[str] = frozenset()
    personal_names: frozenset[str] = frozenset()
    plain_names: frozenset[str] = frozenset()
    safe: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    mask_ips: bool = False
    json_depth: int = 3
    pseudonym_key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Hold the bounds."""
        if not 0 <= self.json_depth <= MAX_JSON_DEPTH:
            raise Invalid("json_depth", f"must be 0 to {MAX_JSON_DEPTH}")
        for place, names in (("secret_names", self.secret_names), ("personal_names", self.personal_names)):
            if not all(map(can_match, names)):
                raise Invalid(
                    place, f"holds a name that none can be: without letters and digits, or of over {MAX_RUN} words"
                )
        if self.pseudonym_key is not None and not MIN_KEY_BYTES <= len(self.pseudonym_key) <= MAX_KEY_BYTES:
            raise Invalid("pseudonym_key", f"must have {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes")

    @cached_property
    def rules(self) -> Rules:
        """The rules that this policy makes."""
        names = NameRules(self.secret_names, self.personal_names, self.plain_names, with_ips=self.mask_ips)
        return Rules(names, self.pseudonym_key, mask_ips=self.mask_ips, json_depth=self.json_depth)

    @cached_property
    def _safe_paths(self) -> dict[str, SafePaths]:
        everywhere = self.safe.get(ANY_TYPE, frozenset[str]())
        return {event_type: safe_paths(paths | everywhere) for event_type, paths in self.safe.items()}

    def safe_for(self, event_type: str) -> SafePaths | None:
        """Give the members that are shown of an event type; None where there are none, and for what has no type."""
        if not event_type:
            return None
        return self._safe_paths.get(event_type) or self._safe_paths.get(ANY_TYPE)


def redact(policy: RedactionPolicy, event_type: str, payload: JsonValue) -> JsonValue:
    """Give a payload as readers may see it: same structure and types, secrets and personal data masked.

    Args:
        policy: what is masked.
        event_type: the event's type, for the policy's safe-lists.
        payload: any JSON value; it is not changed.

    Returns:
        A new value. null, booleans and empty strings are kept; numbers under a sensitive name become 0. Where the
        payload is not what JSON can hold, or is nested deeper than 64 levels, just `***`.
    """
    try:
        return Walk(policy.rules).value(payload, policy.safe_for(event_type))
    except Exception:  # noqa: BLE001 - fails closed: no fault of ours may show what it should have masked
        return MASK


def mask_text(policy: RedactionPolicy, text: str) -> str:
    """Give a text, such as an error's or a line of a log, as readers may see it; `***` where anything goes wrong.

    Args:
        policy: what is masked.
        text: any text; where it is JSON it is looked into.
    """
    try:
        return Walk(policy.rules).text(text)
    except Exception:  # noqa: BLE001 - fails closed: no fault of ours may show what it should have masked
        return MASK


class Report(NamedTuple):
    """What a policy does to a sample of payloads; it holds no value of any.

    Attributes:
        payloads: how many there were.
        changed: in how many something was masked.
        whole: how many were masked whole.
        matches: for each rule that matched, where (`items[].email`; keys that are no plain words show as `*`), and how
            often there. After so many places the others count together.
        unmatched: the rules that never matched.
    """

    payloads: int
    changed: int
    whole: int
    matches: dict[str, dict[str, int]]
    unmatched: list[str]


def report(policy: RedactionPolicy, sample: Iterable[tuple[str, JsonValue]]) -> Report:
    """Say which rules of a policy match what in a sample, and which never do.

    Args:
        policy: what is masked.
        sample: event types and payloads.
    """
    payloads = changed = whole = 0
    matches: dict[str, dict[str, int]] = {}
    for event_type, payload in sample:
        found: list[tuple[str, str]] = []
        payloads += 1
        try:
            Walk(policy.rules, found).value(payload, policy.safe_for(event_type))
        except Exception:  # noqa: BLE001 - as in `redact`
            whole += 1
            found = [("unexpected", "")]
        changed += bool(found)
        for rule, place in found:
            places = matches.setdefault(rule, {})
            known = place if place in places or len(places) < MAX_PLACES else ELSEWHERE
            places[known] = places.get(known, 0) + 1
    unmatched = [rule for rule in policy.rules.all_rules() if rule not in matches]
    return Report(payloads, changed, whole, matches, unmatched)


def read_policy(raw: bytes) -> RedactionPolicy:
    """Read a policy from JSON, strictly. The pseudonyms' key is a secret, and comes from the settings.

    Raises:
        Invalid: naming the part that does not make a policy.
    """
    refuse(raw)
    try:
        form = _file_form().model_validate_json(raw)
    except ValidationError as error:
        raise invalid_from(error, "names") from None
    return RedactionPolicy(**form.model_dump(exclude_unset=True))


@cache
def _file_form() -> type[BaseModel]:
    class PolicyFile(BaseModel):
        model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

        secret_names: _Names = frozenset()
        personal_names: _Names = frozenset()
        plain_names: _Names = frozenset()
        safe: Annotated[Mapping[_Name, frozenset[_Path]], Field(max_length=1000)] = {}
        mask_ips: bool = False
        json_depth: int = 3

    return PolicyFile
