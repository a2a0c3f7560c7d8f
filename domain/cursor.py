"""Cursors: opaque, URL-safe, signed, bound to what they continue (R-404, ADR 0015).

A cursor says where a list goes on: the place of the last row that was handed out, and when that was. Its signature
also covers what it does not say: whose list it is, the filters and the order. So it answers for one query alone.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from domain.errors import BadCursor, Misconfigured

MAX_CURSOR: Final = 1024
LIFE: Final = timedelta(days=7)
"""How long a cursor is taken back: a key that was replaced may go after this time."""
MIN_KEY_BYTES: Final = 32

_SIGNATURE_BYTES: Final = 16
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_OURS: Final = "is not a cursor of this API; take `next_cursor` from the page before"
_OTHERS: Final = "is damaged, out of date or of another query; start again, or keep the filters and the order"


class CursorKeys:
    """The secrets that cursors are signed with. Printing it shows none.

    Args:
        keys: the first one signs; cursors of all of them are taken. To replace a key, put the new one first, and remove
            the old one when `LIFE` has passed.

    Raises:
        Misconfigured: there is none, or one has fewer than 32 bytes.
    """

    __slots__ = ("_keys",)

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) < MIN_KEY_BYTES for key in keys):
            raise Misconfigured("cursor keys", f"name at least one, each of {MIN_KEY_BYTES} bytes or more")
        self._keys = tuple(keys)

    def sign(self, bound: Sequence[str], place: Sequence[str], now: datetime) -> str:
        """Make a cursor.

        Args:
            bound: what the cursor belongs to: the account, each filter, the order.
            place: where the list goes on.
            now: the clock.
        """
        said = json.dumps([(now - _EPOCH) // timedelta(seconds=1), *place], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(_signature(self._keys[0], bound, said) + said).decode().rstrip("=")

    def read(self, bound: Sequence[str], cursor: str, now: datetime, *, parts: int) -> list[str]:
        """Give the place that a cursor was made of.

        Args:
            bound: as when it was made.
            cursor: from outside.
            now: the clock.
            parts: how many texts a place has.

        Raises:
            BadCursor: it is no cursor, was changed, belongs to something else, was signed with a key that is no longer
                ours, or is older than `LIFE`.
        """
        try:
            raw = base64.b64decode(cursor[:MAX_CURSOR] + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error):
            raise BadCursor("cursor", _NOT_OURS) from None
        # Base64 leaves bits of the last character unused: only one spelling of a cursor is taken.
        if base64.urlsafe_b64encode(raw).decode().rstrip("=") != cursor or len(raw) <= _SIGNATURE_BYTES:
            raise BadCursor("cursor", _NOT_OURS)
        signature, said = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not any(hmac.compare_digest(signature, _signature(key, bound, said)) for key in self._keys):
            raise BadCursor("cursor", _OTHERS)
        seconds, *place = json.loads(said)  # our own text, as the signature shows
        age = now - (_EPOCH + timedelta(seconds=seconds))
        if age > LIFE or len(place) != parts:
            raise BadCursor("cursor", _OTHERS)
        return [str(part) for part in place]


def _signature(key: bytes, bound: Sequence[str], said: bytes) -> bytes:
    # A JSON array of texts shows where it ends, so that no two pairs of these meet.
    framed = json.dumps(list(bound)).encode() + said
    return hmac.new(key, framed, hashlib.sha256).digest()[:_SIGNATURE_BYTES]
