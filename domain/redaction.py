"""What a reader of payloads gets to see, whatever the writers put in (R-403, FC-29; docs/adr/0014).

`redact` and `mask_text` are pure: they build new values and leave what they are given as it is. Both fail closed:
whatever they do not expect makes the answer masked whole. Both may be applied again without further effect.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretBytes, ValidationError

from domain.errors import Invalid
from domain.json_reader import refuse
from domain.redaction_marks import MASK
from domain.redaction_names import NameRules
from domain.redaction_walk import Rules, SafePaths, Walk, safe_paths
from domain.validation import invalid_from

ANY_TYPE: Final = "*"
MAX_PLACES: Final = 1000
ELSEWHERE: Final = "(elsewhere)"
_LONGEST: Final = 128

Name = Annotated[str, Field(min_length=1, max_length=_LONGEST)]
Path = Annotated[str, Field(pattern=r"^[^.]{1,128}(\.[^.]{1,128}){0,15}$")]


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
        pseudonym_key: 16 to 1024 bytes. With it, equal personal values get equal pseudonyms in place of masks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    secret_names: Annotated[frozenset[Name], Field(max_length=1000)] = frozenset()
    personal_names: Annotated[frozenset[Name], Field(max_length=1000)] = frozenset()
    plain_names: Annotated[frozenset[Name], Field(max_length=1000)] = frozenset()
    safe: Annotated[Mapping[Name, frozenset[Path]], Field(max_length=1000)] = {}
    mask_ips: bool = False
    json_depth: Annotated[int, Field(ge=0, le=8)] = 3
    pseudonym_key: Annotated[SecretBytes | None, Field(min_length=16, max_length=1024)] = None

    def within(self, *, mask_ips: bool, key: bytes | None) -> "RedactionPolicy":
        """Give the policy of a deployment: IP addresses are masked where either says so, and the key is its own.

        Raises:
            pydantic.ValidationError: the key is too short or too long.
        """
        return RedactionPolicy(
            secret_names=self.secret_names,
            personal_names=self.personal_names,
            plain_names=self.plain_names,
            safe=self.safe,
            mask_ips=self.mask_ips or mask_ips,
            json_depth=self.json_depth,
            pseudonym_key=None if key is None else SecretBytes(key),
        )

    @cached_property
    def rules(self) -> Rules:
        """The rules that this policy makes."""
        key = None if self.pseudonym_key is None else self.pseudonym_key.get_secret_value()
        names = NameRules(self.secret_names, self.personal_names, self.plain_names, with_ips=self.mask_ips)
        return Rules(names, key, mask_ips=self.mask_ips, json_depth=self.json_depth)

    @cached_property
    def _safe_paths(self) -> dict[str, SafePaths]:
        everywhere = self.safe.get(ANY_TYPE, frozenset[str]())
        return {event_type: safe_paths(paths | everywhere) for event_type, paths in self.safe.items()}

    def safe_for(self, event_type: str) -> SafePaths | None:
        """Give the members that are shown of an event type; None where there are none."""
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
        policy = RedactionPolicy.model_validate_json(raw)
    except ValidationError as error:
        raise invalid_from(error, "names") from None
    if policy.pseudonym_key is not None:
        raise Invalid("pseudonym_key", "is a secret: give it as a setting, not in this file")
    return policy
