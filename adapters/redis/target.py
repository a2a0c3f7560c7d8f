"""Where a Redis target is: URLs, read without ever repeating a password.

    redis://[user[:password]@]host[:port][/database]
    redis+sentinel://[user[:password]@]host[:port],host[:port]/name[?db=0]
    redis+cluster://[user[:password]@]host[:port],host[:port]

`rediss` in place of `redis` is TLS, in all three forms. User and password are percent-encoded. Options of TLS, as in
redis-py: `ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile` (paths).
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from domain.errors import Misconfigured

Kind = Literal["single", "sentinel", "cluster"]
Address = tuple[str, int]

PORT: Final = 6379
SENTINEL_PORT: Final = 26379
_KINDS: Final[dict[str, Kind]] = {
    "redis": "single", "redis+sentinel": "sentinel", "redis+cluster": "cluster",
}  # fmt: skip
_TLS_OPTIONS: Final = frozenset({"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
_MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Target:
    """A Redis server, or the servers that know it.

    Attributes:
        kind: what stands at the addresses.
        addresses: of the server, the sentinels, or some nodes of the cluster.
        service: the name that the sentinels know the primary by.
        tls: None for a plain connection, else the options of TLS.
        context: made of them.
    """

    kind: Kind
    addresses: tuple[Address, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    database: int = 0
    service: str = ""
    tls: Mapping[str, str] | None = None
    context: ssl.SSLContext | None = field(default=None, compare=False, repr=False)


def parse_target(url: str, setting: str = "url") -> Target:
    """Read a URL of the forms above.

    Raises:
        Misconfigured: naming the setting and the part that is wrong, and never the password.
    """
    scheme, _, rest = url.partition("://")
    kind = _KINDS.get(scheme.replace("rediss", "redis", 1))
    if kind is None or not rest:
        raise Misconfigured(setting, "must start with redis://, rediss://, redis+sentinel:// or redis+cluster://")
    try:
        parts = urlsplit(f"//{rest}")
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:  # its text may quote the password
        raise Misconfigured(setting, "is no URL") from None
    if parts.fragment:
        raise Misconfigured(setting, "holds a '#': percent-encode user and password")
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, colon, password = credentials.partition(":")
    default_port = SENTINEL_PORT if kind == "sentinel" else PORT
    addresses = tuple(_address(host, default_port, setting) for host in hosts.split(","))
    if kind == "single" and len(addresses) > 1:
        raise Misconfigured(setting, "names several hosts: is it redis+cluster:// or redis+sentinel://?")
    path = unquote(parts.path.removeprefix("/"))
    database = options.pop("db", path if kind == "single" else "") or "0"
    if not (database.isascii() and database.isdecimal()):
        raise Misconfigured(setting, "the database must be a number")
    if kind == "cluster" and (path or database != "0"):
        raise Misconfigured(setting, "a cluster has no path and only database 0")
    if kind == "sentinel" and not path:
        raise Misconfigured(setting, "the name of the primary is missing, as in redis+sentinel://host/name")
    tls = None
    if scheme.startswith("rediss"):
        tls = {name: options.pop(name) for name in sorted(_TLS_OPTIONS & options.keys())}
    if options:
        raise Misconfigured(setting, f"unknown option {min(options)!r}")
    return Target(
        kind,
        addresses,
        unquote(user) or None,
        unquote(password) if colon else None,
        int(database),
        path if kind == "sentinel" else "",
        tls,
        None if tls is None else _context(tls, setting),
    )


def _address(text: str, default_port: int, setting: str) -> Address:
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif ":" in text:
        host, _, port = text.partition(":")
    if not host or (port and not (port.isascii() and port.isdecimal() and 0 < int(port) <= _MAX_PORT)):
        raise Misconfigured(setting, "each host must be host, host:port or [IPv6]:port")
    return host, int(port or default_port)


def _context(options: Mapping[str, str], setting: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
        if certificate := options.get("ssl_certfile"):
            context.load_cert_chain(certificate, options.get("ssl_keyfile"))
    except OSError as error:
        raise Misconfigured(setting, f"a certificate or key cannot be read: {type(error).__name__}") from None
    return context
