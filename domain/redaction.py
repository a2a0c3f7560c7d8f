"""What a reader of payloads gets to see, whatever the writers put in (R-403, FC-29; docs/adr/0014).

`redact` and `mask_text` are pure: they build new values and leave what they are given as it is. Both fail closed:
whatever they do not expect makes the answer masked whole. Both may be applied again without further effect.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretBytes

MASK: Final = "***"

Kind = Literal[
    "email", "phone", "card", "iban", "credentials", "jwt", "aws_key", "api_key", "private_key", "url", "assignment", "ip"
]
"""What is found in text by its form."""

KINDS: Final[tuple[Kind, ...]] = (
    *("private_key", "url", "credentials", "jwt", "aws_key", "api_key"),
    *("email", "phone", "iban", "card", "ip", "assignment"),
)

Names = frozenset[Annotated[str, Field(min_length=1, max_length=128)]]


class RedactionPolicy(BaseModel):
    """What is masked, beyond what always is.

    Attributes:
        secret_names: further names of secrets, in any spelling style; their values are masked, never pseudonyms.
        personal_names: further names of personal data, in any spelling style.
        plain_names: names that are neither, whatever words they hold, such as `token_ring`.
        safe: for each event type (`*`: for all), dotted paths of members that are shown; lists on the way need no
            step. What is secret by its form, or by a name further down, is masked there too.
        mask_ips: whether IP addresses are personal data.
        json_depth: how many levels of JSON inside strings are looked into; deeper ones are masked whole.
        pseudonym_key: at least 16 bytes. With it, equal personal values get equal pseudonyms in place of masks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    secret_names: Names = frozenset()
    personal_names: Names = frozenset()
    plain_names: Names = frozenset()
    safe: Annotated[Mapping[str, Names], Field(max_length=1000)] = {}
    mask_ips: bool = False
    json_depth: Annotated[int, Field(ge=0, le=8)] = 3
    pseudonym_key: Annotated[SecretBytes | None, Field(min_length=16, max_length=1024)] = None


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
    raise NotImplementedError


def mask_text(policy: RedactionPolicy, text: str) -> str:
    """Give a text, such as an error's or a line of a log, as readers may see it.

    Args:
        policy: what is masked.
        text: any text; JSON in it is looked into.
    """
    raise NotImplementedError
