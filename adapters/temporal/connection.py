"""A client of Temporal for each event loop, and the one place where its errors become ours."""

import asyncio
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from weakref import WeakKeyDictionary

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError, TLSConfig

from domain.errors import InterlockError, Invalid, Misconfigured, TooLarge, Unavailable
from domain.retry import classify

TEMPORAL: Final = "Temporal"
CONNECT_SECONDS: Final = 5.0

_MOST_TEXT: Final = 200
_NUMBERS: Final = re.compile(r"\d{4,}")
# How the SDK tells of a connection, or a worker, whose first call was refused.
_REFUSED: Final = re.compile(r'Status \{ code: (?P<code>\w+), message: "(?P<message>[^"]*)"')
_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Target:
    """Where Temporal is, and how it knows us.

    Attributes:
        address: host and port.
        namespace: in which workflows run.
        api_key: of Temporal Cloud, say; it brings TLS with it.
        tls: whether to use TLS; None: where there is an API key or a certificate.
        server_ca: certificates that the server's own is checked by, PEM; None for the system's.
        certificate: what we show (mTLS), PEM.
        key: its private key, PEM.
    """

    address: str
    namespace: str = "default"
    api_key: str | None = None
    tls: bool | None = None
    server_ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None

    @property
    def security(self) -> TLSConfig | bool | None:
        """What the SDK wants to know about TLS."""
        if self.tls is False:
            return False
        if self.server_ca or self.certificate:
            return TLSConfig(self.server_ca, client_cert=self.certificate, client_private_key=self.key)
        return self.tls


class Temporal:
    """Gives clients. Nothing is connected to before the first call; a connection that is lost is made again.

    A client belongs to the loop that it was made under (FC-22), so each loop has its own.
    """

    def __init__(self, target: Target) -> None:
        """Speak to this server."""
        self.target = target
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Client] = WeakKeyDictionary()

    async def client(self) -> Client:
        """Give the client of the running loop."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = await connect(self.target, lazy=True)
        return client


async def connect(target: Target, *, lazy: bool) -> Client:
    """Make a client.

    Args:
        target: the server.
        lazy: connect at the first call; workers cannot use such a client.

    Raises:
        Unavailable: the server does not answer.
        Misconfigured: it lets us not in.
    """
    try:
        return await Client.connect(
            target.address,
            namespace=target.namespace,
            api_key=target.api_key,
            tls=target.security,
            data_converter=pydantic_data_converter,
            lazy=lazy,
            connect_timeout=timedelta(seconds=CONNECT_SECONDS),
        )
    except RuntimeError as error:
        raise translate(error) from error


def translate(error: RPCError | RuntimeError) -> InterlockError:
    """Turn an error of the SDK into one of ours, by `domain.retry.classify`; a failed connection is a `RuntimeError`.

    | verdict | ours |
    |---|---|
    | retry | `Unavailable` |
    | too large | `TooLarge`, with the sizes that the text names |
    | give up, as the request is wrong | `Invalid` |
    | give up, for any other reason | `Misconfigured` |
    """
    status, message = _told(error)
    reason = f"{status}: {message}"
    match classify(status, message):
        case "retry":
            return Unavailable(TEMPORAL, reason)
        case "too_large":
            size, limit = _sizes(message)
            return TooLarge("", f"does not fit, says {TEMPORAL}: {reason}", size, limit)
        case _ if status in {"INVALID_ARGUMENT", "OUT_OF_RANGE", "ALREADY_EXISTS"}:
            return Invalid("", f"{TEMPORAL} refused the request: {reason}")
        case _:
            return Misconfigured(TEMPORAL, reason)


def _told(error: RPCError | RuntimeError) -> tuple[str, str]:
    if isinstance(error, RPCError):
        return error.status.name, " ".join(error.message.split())[:_MOST_TEXT]
    refused = _REFUSED.search(str(error))
    if refused:
        return _WORDS.sub("_", refused["code"]).upper(), " ".join(refused["message"].split())[:_MOST_TEXT]
    return "UNAVAILABLE", "no connection: " + " ".join(str(error).split())[-_MOST_TEXT:]


def _sizes(message: str) -> tuple[int, int]:
    """Give the size and the limit that a text names, such as `(10248653 vs. 4194304)`; 0 for what it does not."""
    numbers = sorted((int(number) for number in _NUMBERS.findall(message)), reverse=True)
    match numbers:
        case [size, limit, *_]:
            return size, limit
        case [limit]:
            return 0, limit
        case _:
            return 0, 0
