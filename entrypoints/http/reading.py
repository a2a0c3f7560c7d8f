"""Reading requests strictly: what is unknown, repeated, too long or of another kind is refused, never guessed."""

import asyncio
import re
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Final, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from pydantic import SecretStr
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from domain.access import LOCAL, Caller, Scope, require
from domain.errors import Invalid, NotFound, TooLarge, Unauthenticated
from domain.event import MAX_EVENT_ID
from entrypoints.http.problems import IDEMPOTENCY_KEY
from ports.access import Access

BODY_SECONDS: Final = 30.0
"""From the headers of a request until its body is complete."""

_BEARER: Final = re.compile(r"bearer +(?P<token>\S+)", re.IGNORECASE | re.ASCII)
_CHARSET: Final = re.compile(r'\s*charset\s*=\s*"?utf-?8"?\s*', re.IGNORECASE)
_KEY: Final = re.compile(r"[\x20-\x7E]{1,255}")
# Reading a text of this size takes about a millisecond; longer ones must not hold up other requests.
_QUICK_BYTES: Final = 64 * 1024

T = TypeVar("T")


async def identify(access: Access | None, request: Request, scope: Scope, now: datetime) -> Caller:
    """Say who calls, and hold the caller to a scope; where the API is open, everybody is the actor `local`.

    Raises:
        Unauthenticated: no token, or one that opens nothing.
        Forbidden: the token lacks the scope.
    """
    if access is None:
        return LOCAL
    caller = await access.identify(bearer_token(request), now)
    require(caller, scope)
    return caller


def bearer_token(request: Request) -> SecretStr:
    """Give the token of the `Authorization` header (RFC 6750 § 2.1).

    Raises:
        Unauthenticated: there is none, or the header is something else.
    """
    given = request.headers.getlist("authorization")
    if not given:
        raise Unauthenticated(token_shown=False)
    match = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
    if match is None:
        raise Unauthenticated(token_shown=True)
    return SecretStr(match["token"])


def media_type(request: Request, allowed: Collection[str], *, encodings: Collection[str] = ("identity",)) -> str:
    """Give the media type of the body, in lower case.

    Raises:
        HTTPException: 415; it is missing, not one of `allowed`, not in UTF-8, or encoded in another way.
    """
    kind, *parameters = request.headers.get("content-type", "").split(";")
    kind = kind.strip().lower()
    charsets = [parameter for parameter in parameters if parameter.strip().lower().startswith("charset")]
    if kind not in allowed or not all(_CHARSET.fullmatch(charset) for charset in charsets):
        raise HTTPException(415, f"send {' or '.join(allowed)}, in UTF-8")
    if request.headers.get("content-encoding", "identity").lower() not in encodings:
        others = [encoding for encoding in encodings if encoding != "identity"]
        raise HTTPException(415, " or ".join(["send the body without a content encoding", *others]))
    return kind


async def read_body(request: Request, limit: int) -> bytes:
    """Read the body, and no more of it than the limit, whatever length was announced.

    Raises:
        TooLarge: over `limit` bytes.
        HTTPException: 408 where it takes longer than `BODY_SECONDS`.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limit:
        raise _body_too_large(int(announced[:20]), limit)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise _body_too_large(len(body), limit)
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {BODY_SECONDS:.0f} seconds") from None
    return bytes(body)


def _body_too_large(size: int, limit: int) -> TooLarge:
    return TooLarge("", f"the body has {size} bytes or more; the limit is {limit}", size, limit)


async def parse(reader: Callable[[bytes], T], raw: bytes) -> T:
    """Run a reader over a body: at once where it is short, in a thread where it is long."""
    return reader(raw) if len(raw) <= _QUICK_BYTES else await run_in_threadpool(reader, raw)


def query_parameters(request: Request, known: Collection[str]) -> dict[str, str]:
    """Give the query parameters, each at most once and none but the known ones.

    Raises:
        Invalid: naming the parameter.
    """
    raw: bytes = request.scope["query_string"]
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        raise Invalid("", "the query string must be percent-encoded UTF-8, as in state=open&limit=10") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            raise Invalid(name, f"is not a parameter here; there are {', '.join(known)}")
        if name in found:
            raise Invalid(name, "is given twice")
        found[name] = value
    return found


def path_event_id(request: Request) -> str:
    """Give the event id in the path.

    Raises:
        NotFound: no event can have such an id.
    """
    sent: str = request.path_params["event_id"]
    try:
        event_id = unquote_to_bytes(sent.encode("latin-1")).decode()
    except UnicodeDecodeError:
        raise NotFound(sent[:MAX_EVENT_ID]) from None
    if len(event_id) > MAX_EVENT_ID:
        raise NotFound(event_id[:MAX_EVENT_ID])
    return event_id


def idempotency_key(request: Request) -> str | None:
    """Give the `Idempotency-Key` header, or None where there is none.

    Raises:
        Invalid: more than one, or not 1-255 printable ASCII characters.
    """
    given = request.headers.getlist(IDEMPOTENCY_KEY)
    if not given:
        return None
    if len(given) > 1 or _KEY.fullmatch(given[0]) is None:
        raise Invalid(IDEMPOTENCY_KEY, "must be one header of 1 to 255 printable ASCII characters")
    return given[0]
