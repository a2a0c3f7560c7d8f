"""One walk over a payload: names decide first, then the form of each string (R-403, FC-29)."""

import json
from collections.abc import Collection, Iterator
from typing import Final, NoReturn

from pydantic import JsonValue

from domain.json_reader import MAX_DEPTH
from domain.redaction_assignments import mask_assignments, mask_options_and_elements, mask_pairs
from domain.redaction_checks import SMALLEST_CARD, is_card
from domain.redaction_forms import (
    SHORTEST,
    any_form,
    any_form_or_ip,
    is_time,
    is_unicode,
    mask_personal_forms,
    mask_secret_forms,
    may_hold_some,
)
from domain.redaction_looks import folded, plain_look
from domain.redaction_marks import MASK, Marks
from domain.redaction_names import MAX_CACHED, MAX_NAME, PLAIN, Name, NameRules, is_field_name

SafePaths = dict[str, "SafePaths"]
"""Members that are shown, step by step; a path's last step leads to an empty one."""

_SECRET_KINDS: Final = ("private_key", "user_info", "credentials", "jwt", "aws_key", "api_key")
_PERSONAL_KINDS: Final = ("email", "phone", "iban", "card")
_MAX_PASSES: Final = 6
_BLANKS: Final = " \t\r\n\ufeff"
_DESCRIBING: Final = ("path", "id", "type")
"""Members that name what `value` beside them holds, where it is a secret."""
_NAMES_BEGIN: Final = frozenset("-acpsACPS")
"""How `--password`, `Authorization`, `Cookie`, `Proxy-Authorization` and `Set-Cookie` begin."""
_SHORT: Final = 1024
"""Characters of a text that is masked whole where two ways to look at it find different secrets."""
_CONTAINERS: Final = frozenset({dict, list})
_JSON_BEGINS: Final = frozenset('{["')


class Rules:
    """The rules of one policy, made once.

    Args:
        names: what names mean.
        key: of the pseudonyms.
        mask_ips: whether IP addresses are personal.
        json_depth: how many levels of JSON in strings are looked into.
    """

    def __init__(self, names: NameRules, key: bytes | None, *, mask_ips: bool, json_depth: int) -> None:
        """Put the rules together."""
        self.names = names
        self.mask_ips = mask_ips
        self.json_depth = json_depth
        self.kinds = (*_SECRET_KINDS, *_PERSONAL_KINDS, *(("ip",) if mask_ips else ()))
        self.marks = Marks(frozenset({*self.kinds, "personal"}), key)
        self.has_pseudonyms = key is not None
        self.keys: dict[str, Name] = {}
        """Keys that hold nothing of a form, and what they mean. Names that are looked up elsewhere may."""

    def keep(self, key: str, name: Name) -> None:
        """Remember a key that holds nothing of a form, up to a bound."""
        if len(self.keys) >= MAX_CACHED:
            self.keys.clear()
        self.keys[key] = name

    def all_rules(self) -> Iterator[str]:
        """Name every rule as notes do."""
        yield from (f"form {kind}" for kind in self.kinds)
        yield from (f"{kind} name {term}" for kind, term in self.names.terms())


def safe_paths(paths: Collection[str]) -> SafePaths:
    """Give dotted paths step by step."""
    root: SafePaths = {}
    for path in sorted(paths, key=len, reverse=True):
        node = root
        for step in path.split("."):
            node = node.setdefault(step, {})
        node.clear()
    return root


class UnexpectedError(Exception):
    """The payload is not what JSON can hold; it is masked whole."""


class Walk:
    """A walk over one payload.

    Args:
        rules: what is masked.
        notes: takes the rule and the place of each match.
        personal: whether personal data are masked, as everywhere but below a safe member.
    """

    def __init__(self, rules: Rules, notes: list[tuple[str, str]] | None = None, *, personal: bool = True) -> None:
        """Begin at the root."""
        self.rules = rules
        self._notes = notes
        self._personal = personal
        self._ips = personal and rules.mask_ips
        self._any_form = any_form_or_ip if self._ips else any_form
        self._names = rules.names.known
        self._keys = rules.keys
        self._json_level = 0
        self._trail: list[str] = []
        self._at = ""

    def value(self, value: JsonValue, safe: SafePaths | None = None, depth: int = 0) -> JsonValue:
        """Give a value as readers may see it.

        Raises:
            UnexpectedError: JSON cannot hold it, or it is nested too deeply.
        """
        kind = type(value)
        if kind is str:
            return self.text(value)  # type: ignore[arg-type]
        if kind is dict:
            return self._object(value, safe, depth + 1)  # type: ignore[arg-type]
        if kind is list:
            return self._list(value, safe, depth + 1)  # type: ignore[arg-type]
        if kind is int or kind is float:
            return self._number(value)  # type: ignore[arg-type]
        if value is None or kind is bool:
            return value
        return _unexpected(f"a {kind.__name__} is not JSON")

    def text(self, text: str) -> str:
        """Give a text as readers may see it."""
        if len(text) < SHORTEST or not may_hold_some(text, self._any_form):
            return text
        return self._settled(text)

    def _settled(self, text: str, passes: int = _MAX_PASSES) -> str:
        """Mask a text until that changes nothing any more, so that doing it again would not either."""
        if text[0].isdigit() and is_time(text):
            return text
        shown, is_final = self._pass(text)
        if is_final or shown == text or not may_hold_some(shown, self._any_form):
            return shown
        notes, self._notes = self._notes, None  # what is found again was told
        try:
            return self._settled(shown, passes - 1) if passes > 1 else MASK
        finally:
            self._notes = notes

    def _object(self, members: dict[str, JsonValue], safe: SafePaths | None, depth: int) -> dict[str, JsonValue]:
        if depth > MAX_DEPTH:
            _unexpected("nested too deeply")
        shown: dict[str, JsonValue] = {}
        renamed: dict[str, str] = {}
        labelled = PLAIN
        keys, may_hold = self._keys, self._any_form
        for key, value in members.items():
            name = keys.get(key) or self._learn(key, renamed)
            kind = type(value)
            if name is PLAIN and safe is None:
                if kind is str:
                    if len(value) < SHORTEST:  # type: ignore[arg-type]
                        shown[key] = value
                    elif may_hold(value) if value.isascii() else may_hold_some(value, may_hold):  # type: ignore[arg-type, union-attr]
                        self._at = key
                        shown[key] = self._settled(value)  # type: ignore[arg-type]
                    else:
                        shown[key] = value
                    continue
                if kind is int or kind is float:
                    shown[key] = value if -SMALLEST_CARD < value < SMALLEST_CARD else self._number(value)  # type: ignore[operator, arg-type]
                    continue
                if value is None or kind is bool:
                    shown[key] = value
                    continue
                if kind is dict:
                    self._trail.append(key)
                    shown[key] = self._object(value, None, depth + 1)  # type: ignore[arg-type]
                    self._trail.pop()
                    continue
            shown[key] = seen = self._member(key, value, name, safe, depth)
            if name.is_label and labelled is PLAIN and kind is str:
                # Who redacts again has only what is seen.
                labels = self._label(value), self._label(seen)  # type: ignore[arg-type]
                labelled = labels[0] if labels[0] is not PLAIN else labels[1]
        if labelled is not PLAIN or "value" in members:
            self._hide_labelled(members, shown, labelled, safe or {}, depth, renamed)
        return _rename(shown, renamed) if renamed else shown

    def _hide_labelled(
        self,
        members: dict[str, JsonValue],
        shown: dict[str, JsonValue],
        label: Name,
        safe: SafePaths,
        depth: int,
        renamed: dict[str, str],
    ) -> None:
        """Hide what another member names: `value` beside `{"key": "password"}`, or beside `{"path": "/password"}`.

        The latter is JSON Patch (RFC 6902). Beside an `id` or a `type` numbers are kept: there they are amounts. Names
        are read as they came and as they are shown, for who redacts again has only the latter.
        """
        hidden: list[str] = []
        if label is not PLAIN:
            hidden = [key for key in members if self._name(key).is_value or self._name(renamed.get(key, "")).is_value]
        if not hidden:
            is_number = type(members.get("value")) in {int, float}
            said = [key for key in _DESCRIBING if key == "path" or not is_number]
            texts = [known.get(key) for key in said for known in (members, shown)]
            labels = (self._label(text) for text in texts if isinstance(text, str) and " " not in text)
            label = next((found for found in labels if found.kind == "secret"), PLAIN)
            hidden = ["value"] if label is not PLAIN and "value" in members else []
        for key in hidden:
            if key not in safe:
                self._at = key
                shown[key] = self._hide(label, members[key], depth)

    def _member(self, key: str, value: JsonValue, name: Name, safe: SafePaths | None, depth: int) -> JsonValue:
        """Give the value of any member."""
        below = None if safe is None else safe.get(key)
        if below is not None and not below:
            return self._calmly(key, value, depth)
        self._at = key
        if name.kind != "plain" and (self._personal or name.kind == "secret"):
            return self._hide(name, value, depth, below)
        if type(value) in _CONTAINERS:
            self._trail.append(key)
            shown = self.value(value, below, depth)
            self._trail.pop()
            return shown
        return self.value(value)

    def _list(self, items: list[JsonValue], safe: SafePaths | None, depth: int) -> list[JsonValue]:
        if depth > MAX_DEPTH:
            _unexpected("nested too deeply")
        self._trail.append("[]")
        self._at = ""
        if len(items) == 2 and (alone := self._pair_alone(items, depth)) is not None:  # noqa: PLR2004
            shown = alone
        elif items and type(items[0]) is list and all(map(_is_pair, items)):
            shown = [self._pair(item, safe, depth + 1) for item in items]  # type: ignore[arg-type]
        else:
            shown = [self.value(item, safe, depth) for item in items]
            if len(items) > 1 and type(items[0]) is str:
                self._hide_after_options(items, shown)
        self._trail.pop()
        return shown

    def _pair_alone(self, items: list[JsonValue], depth: int) -> list[JsonValue] | None:
        """Give `["Cookie", "a=1"]` where it stands by itself; None where it is no such pair, such as two names."""
        if type(items[0]) is not str:
            return None
        value = items[1]
        label = self._label(items[0]) if is_field_name(items[0].lstrip("-")) else PLAIN
        if label.kind != "secret" or (type(value) is str and is_field_name(value)):
            return None
        return [self.value(items[0]), self._hide(label, value, depth)]

    def _hide_after_options(self, items: list[JsonValue], shown: list[JsonValue]) -> None:
        """Hide what follows `--password`, or a header's secret name, in a flat list of texts."""
        for place, (written, seen, value) in enumerate(zip(items, shown, items[1:], strict=False), 1):
            for name in (written,) if seen is written else (written, seen):
                if type(name) is str and name[:1] in _NAMES_BEGIN and type(value) is str:
                    label = self._label(name)
                    is_option = name[0] == "-" and label.kind == "secret" and value[:1] != "-"
                    if is_option or (label.whole_line and not is_field_name(value)):
                        shown[place] = self._hidden(label, value)
                        break

    def _pair(self, pair: list[JsonValue], safe: SafePaths | None, depth: int) -> JsonValue:
        """Give a `[name, value]`, as lists of headers hold."""
        label = self._label(pair[0])  # type: ignore[arg-type]
        if label is PLAIN:
            return self.value(pair, safe, depth - 1)
        return [self.value(pair[0]), self._hide(label, pair[1], depth)]

    def _calmly(self, key: str, value: JsonValue, depth: int) -> JsonValue:
        """Give a safe member: only what is secret by its form, or by a name further down, is masked."""
        walk = Walk(self.rules, self._notes, personal=False)
        walk._trail, walk._json_level = [*self._trail, key], self._json_level
        return walk.value(value, None, depth)

    def _learn(self, key: str, renamed: dict[str, str]) -> Name:
        if type(key) is not str:
            _unexpected("a key is not a string")
        self._at = key
        shown = self.text(key)
        if shown != key:
            renamed[key] = shown
            return self.rules.names.judge(shown)
        name = self.rules.names.judge(key)
        # Below a safe member less is masked, and what may be JSON depends on the depth: neither is worth keeping.
        if self._personal and len(key) <= MAX_NAME and key.lstrip(_BLANKS)[:1] not in _JSON_BEGINS:
            self.rules.keep(key, name)
        return name

    def _name(self, text: str) -> Name:
        return self._names.get(text) or self.rules.names.look_up(text)

    def _label(self, text: str) -> Name:
        """Say what a value means that may be a name."""
        if len(text) > MAX_NAME:
            return PLAIN
        name = self._name(text)
        hidden = name.kind == "secret" or (name.kind == "personal" and self._personal)
        return name if hidden else PLAIN

    def _hide(self, name: Name, value: JsonValue, depth: int, safe: SafePaths | None = None) -> JsonValue:
        """Mask all that hangs under a sensitive name, but for safe members."""
        if isinstance(value, str):
            return self._hidden(name, value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            self._tell(f"{name.kind} name {name.term}")
            return type(value)(0)
        if depth >= MAX_DEPTH:
            _unexpected("nested too deeply")
        if isinstance(value, list):
            return [self._hide(name, item, depth + 1, safe) for item in value]
        if type(value) is not dict:
            _unexpected("a value is not JSON")
        told = 0 if self._notes is None else len(self._notes)
        shown: dict[str, JsonValue] = {}
        for key, item in value.items():
            below = None if safe is None else safe.get(key)
            if below is not None and not below:
                shown[key] = self._calmly(key, item, depth + 1)
            else:
                shown[key] = self._hide(name, item, depth + 1, below)
        renamed = {key: MASK for key in value if not is_field_name(key)}
        if renamed and self._notes is not None and len(self._notes) == told:
            self._tell(f"{name.kind} name {name.term}")
        return _rename(shown, renamed) if renamed else shown

    def _hidden(self, name: Name, text: str) -> str:
        """Give what stands in place of a text under a sensitive name."""
        marks = self.rules.marks
        if not text or marks.is_mark(text):
            return text
        if self._notes is not None:
            self._tell(f"{name.kind} name {name.term}")
        if name.kind == "secret" or not self.rules.has_pseudonyms:
            return MASK
        plain = plain_look(text).strip()
        shown = mask_personal_forms(plain, marks.mark, ips=self._ips)
        if marks.is_mark(shown):
            return shown
        return marks.mark("personal", " ".join(plain.casefold().split()))

    def _number(self, number: float) -> float:
        """Give a number, or 0 where it is a card's."""
        if -SMALLEST_CARD < number < SMALLEST_CARD or not self._personal:
            return number
        digits = str(abs(int(number))) if number == number and abs(number) < 1e20 else ""  # noqa: PLR0124, PLR2004
        if not is_card(digits):
            return number
        self._tell("form card")
        return type(number)(0)

    def _pass(self, text: str) -> tuple[str, bool]:
        """Mask a text once, and say whether another pass is needless.

        It is where only values under names were masked: no form reaches over the mask that stands for them, unless
        an @ further on does.
        """
        may_be_json = not text[0].isalnum() and text.lstrip(_BLANKS)[:1] in _JSON_BEGINS
        if may_be_json:
            try:
                return self._json(text, _read(text)), False
            except json.JSONDecodeError as error:
                if _is_cut(text, error):
                    return self._whole("json unreadable"), True
            except (ValueError, RecursionError):
                return self._whole("json unreadable"), True
        shown, is_final = self._looked_at(text)
        return shown, is_final and not (may_be_json and shown != text)

    def _looked_at(self, text: str) -> tuple[str, bool]:
        """Mask a text that is no JSON once.

        | as it looks to who reads it there is | shown |
        |---|---|
        | nothing to mask, or just what there is as it is written | as it is written |
        | more | as it looks |
        | something else: a secret may be found in part | of a short text nothing; of a long one what both leave |
        """
        if text.isascii() and "\\" not in text and "\0" not in text:  # it looks as it is written
            shown, has_form = self._masked(text)
            return shown, shown == text or not (has_form or "@" in shown)
        plain = folded(text)
        if not is_unicode(plain):
            return self._whole("not unicode"), True
        notes = [] if self._notes is None else self._notes
        before = len(notes)
        shown, has_form = self._masked(plain)
        looks = plain_look(plain)
        if looks != plain:
            has_form, between = True, len(notes)
            seen, _ = self._masked(looks)
            if seen not in {looks, written := plain_look(shown)}:
                after = len(notes)
                both = self._masked(written)[0] if written != looks else seen
                if both != seen and len(text) <= _SHORT:
                    return self._whole("looks differ"), True
                del notes[after:], notes[before:between]  # what is found twice is told once
                return both, False
            del notes[between:]
        if shown == plain:
            return text, True
        return shown, not has_form and "@" not in shown

    def _masked(self, plain: str) -> tuple[str, bool]:
        """Apply the rules to a text once, and say whether there was anything of a form."""
        mark = self.rules.marks.mark if self._notes is None else self._mark
        formless = mask_secret_forms(plain, mark)
        if self._personal:
            formless = mask_personal_forms(formless, mark, ips=self._ips)
        shown = formless
        if "=" in shown or ":" in shown or "%" in shown:
            shown = mask_assignments(shown, self._meaning, self._hidden)
        if "--" in shown or "</" in shown:
            shown = mask_options_and_elements(shown, self._meaning, self._hidden)
        if "'," in shown or '",' in shown:
            shown = mask_pairs(shown, self._meaning, self._hidden)
        return shown, formless != plain

    def _json(self, text: str, inner: JsonValue) -> str:
        """Give JSON in a string: as it came where nothing in it is masked."""
        if self._json_level >= self.rules.json_depth:
            return self._whole("json too deep")
        at, trail = self._at, self._trail
        self._json_level += 1
        self._trail = [*trail, at]
        try:
            shown = self.value(inner)
        except UnexpectedError:
            return self._whole("json unreadable")
        finally:
            self._at, self._trail = at, trail
            self._json_level -= 1
        ascii_only = text.isascii() or "\\u" in text
        after = _write(shown, ascii_only=ascii_only)
        return text if after == _write(inner, ascii_only=ascii_only) else after

    def _whole(self, rule: str) -> str:
        self._tell(rule)
        return MASK

    def _meaning(self, name: str) -> Name:
        found = self._names.get(name) or self.rules.names.look_up(name)
        return PLAIN if found.kind == "personal" and not self._personal else found

    def _mark(self, kind: str, found: str) -> str:
        if self._notes is not None:
            self._tell(f"form {kind}")
        return self.rules.marks.mark(kind, found)

    def _tell(self, rule: str) -> None:
        if self._notes is not None:
            steps = [step if step == "[]" or is_field_name(step) else "*" for step in (*self._trail, self._at) if step]
            self._notes.append((rule, ".".join(steps).replace(".[]", "[]")))


def _is_pair(value: JsonValue) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)  # noqa: PLR2004


def _unexpected(reason: str) -> NoReturn:
    raise UnexpectedError(reason)


def _read(text: str) -> JsonValue:
    """Read JSON as its readers would, whatever its numbers.

    Raises:
        json.JSONDecodeError: it is none.
        ValueError: a name stands twice in one object, so that what one reader sees another does not.
        RecursionError: it is nested too deeply.
    """
    value: JsonValue = json.loads(text.lstrip("\ufeff"), object_pairs_hook=_members)
    return value


def _members(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name stands twice")
    return members


def _is_cut(text: str, error: json.JSONDecodeError) -> bool:
    """Say whether a text that is no JSON begins with an object that is some, as lines of JSON do."""
    return error.msg == "Extra data" and "{" in text[: error.pos]


def _write(value: JsonValue, *, ascii_only: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))


def _rename(members: dict[str, JsonValue], renamed: dict[str, str]) -> dict[str, JsonValue]:
    """Give the members under their masked keys; keys that were distinct stay so."""
    taken = {key for key in members if key not in renamed}
    numbers: dict[str, int] = {}
    shown: dict[str, JsonValue] = {}
    for key, value in members.items():
        name = key
        if key in renamed:
            base = name = renamed[key]
            number = numbers.get(base, 1)
            while (name := base if number == 1 else f"{base} #{number}") in taken:
                number += 1
            numbers[base] = number + 1
            taken.add(name)
        shown[name] = value
    return shown
