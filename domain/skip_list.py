"""The skip list: reports that the router leaves out (R-307, CONTRACTS § 3).

An entry names a report, and the event type for which it is left out; the empty type stands for every type. White space
around ids and types is not part of them: they are often pasted. Entries are one fact each, so that edits which cross
lose nothing (FC-24).
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from domain.envelope import framed_digest
from domain.errors import BadCursor, Invalid
from domain.validation import PLAIN_TEXT, PROSE

MAX_IDS: Final = 10_000
MAX_REPORT_ID_BYTES: Final = 256
MAX_EVENT_TYPE: Final = 128
MAX_REASON: Final = 500
DEFAULT_PAGE: Final = 100
MAX_PAGE: Final = 1000
EVERY_TYPE: Final = ""

_PLAIN: Final = re.compile(PLAIN_TEXT)
_PROSE: Final = re.compile(PROSE)


class SkipKey(NamedTuple):
    """What is left out. Lists are in the order of these keys, by code points."""

    event_type: str
    report_id: str


class SkipEntry(NamedTuple):
    """An entry of the list: what is left out, why, and since when."""

    key: SkipKey
    reason: str
    added_at: datetime


class SkipListQuery(NamedTuple):
    """A page of the list: of one event type, or of all where it is None, after a key."""

    event_type: str | None
    limit: int
    after: SkipKey | None = None


def check_event_type(event_type: str) -> str:
    """Give an event type without the white space around it; empty for every type.

    Raises:
        Invalid: it is too long or holds control characters.
    """
    name = event_type.strip()
    if len(name) > MAX_EVENT_TYPE or not _is_plain(name):
        raise Invalid("event_type", f"must have at most {MAX_EVENT_TYPE} characters, and no control characters")
    return name


def check_report_ids(report_ids: Sequence[str]) -> list[str]:
    """Give different report ids, each without the white space around it, in order.

    Raises:
        Invalid: naming the first that is empty or too long, or the number of them.
    """
    if not 1 <= len(report_ids) <= MAX_IDS:
        raise Invalid("report_ids", f"must hold 1 to {MAX_IDS} ids, not {len(report_ids)}")
    found: dict[str, None] = {}
    for index, given in enumerate(report_ids):
        report_id = given.strip()
        if not _is_plain(report_id) or not 1 <= len(report_id.encode()) <= MAX_REPORT_ID_BYTES:
            reason = f"must have 1 to {MAX_REPORT_ID_BYTES} bytes as UTF-8, and no control characters"
            raise Invalid(f"report_ids[{index}]", reason)
        found[report_id] = None
    return list(found)


def check_reason(reason: str) -> str:
    """Give the reason of an edit.

    Raises:
        Invalid: it is too long or holds control characters.
    """
    text = reason.strip()
    if len(text) > MAX_REASON or not _PROSE.fullmatch(text) or not _is_utf8(text):
        raise Invalid("reason", f"must have at most {MAX_REASON} characters, and no control characters")
    return text


def skip_reason(entries: Mapping[SkipKey, str], event_type: str, report_id: str | None) -> str | None:
    """Say why a report's event is left out, or None where it is not. The entry of its own type comes first.

    | listed for the type | listed for every type | answer |
    |---|---|---|
    | yes | any | the reason of its type's entry |
    | no | yes | the reason of the entry for every type |
    | no | no | None |
    """
    if report_id is None:
        return None
    wanted = report_id.strip()
    for kind in (event_type.strip(), EVERY_TYPE):
        reason = entries.get(SkipKey(kind, wanted))
        if reason is not None:
            return reason or "it is on the skip list"
    return None


def page_limit(page_size: int) -> int:
    """Give how many entries a page has: 100 where the caller does not say, 1,000 at most.

    Raises:
        Invalid: it is negative.
    """
    if page_size < 0:
        raise Invalid("page_size", "must not be negative")
    return min(page_size or DEFAULT_PAGE, MAX_PAGE)


def write_page_token(query: SkipListQuery, last: SkipKey) -> str:
    """Make the token that continues a list after its last entry, bound to the event type asked for."""
    text = json.dumps([*last, _digest(query.event_type, last)], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_page_token(event_type: str | None, token: str) -> SkipKey:
    """Read where a list goes on.

    Raises:
        BadCursor: text that is no token, or the token of another list.
    """
    try:
        padded = token + "=" * (-len(token) % 4)
        kind, report_id, digest = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        key = SkipKey(str.strip(kind), str.strip(report_id))
        matches = digest == _digest(event_type, key) and event_type in (None, key.event_type)
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise BadCursor("page_token", "is none of this service; take `next_page_token` from the page before") from None
    if not matches:
        raise BadCursor("page_token", "is damaged or belongs to another list; keep the event type as it was")
    return key


def matching(entries: Iterable[SkipEntry], query: SkipListQuery) -> list[SkipEntry]:
    """Give a page out of all entries, in order."""
    found = sorted(
        entry
        for entry in entries
        if query.event_type in (None, entry.key.event_type) and (query.after is None or entry.key > query.after)
    )
    return found[: query.limit]


def _digest(event_type: str | None, last: SkipKey) -> str:
    return framed_digest("skip", "*" if event_type is None else f"={event_type}", *last)[:16]


def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None and _is_utf8(text)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
