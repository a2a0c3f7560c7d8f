"""The dedup cache, and the gRPC server before it."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, SecretStr

from domain.dedup import MAX_TTL
from domain.errors import Invalid
from entrypoints.durations import read_duration
from entrypoints.groups.base import MIB, Group, TableName

REDIS_SCHEMES: Final = ("redis://", "rediss://", "redis+cluster://", "redis+sentinel://")
_ABOUT_REDIS_URLS: Final = (
    "a URL: redis://host:port/0, rediss://host:port/0, redis+cluster://host:port or redis+sentinel://host:port,…/name"
)


def _is_ttl(text: str) -> str:
    try:
        given = read_duration(text, "")
    except Invalid as error:
        raise ValueError(error.reason) from None
    if given > MAX_TTL:
        raise ValueError("over 30 days")
    return text


def _is_redis_url(url: SecretStr) -> SecretStr:
    if not url.get_secret_value().startswith(REDIS_SCHEMES):
        raise ValueError("another scheme")
    return url


class DedupSettings(Group):
    """The dedup cache, and how its service is reached. Passwords in URLs and the token are never printed."""

    backend: Annotated[
        Literal["memory", "sqlite", "redis", "dynamodb"],
        Field(description="where keys are remembered: memory (one process only), sqlite, redis, dynamodb"),
    ] = "memory"
    primary_url: Annotated[
        SecretStr | None, AfterValidator(lambda url: url and _is_redis_url(url)), Field(description=_ABOUT_REDIS_URLS)
    ] = None
    secondary_url: Annotated[
        SecretStr | None, AfterValidator(lambda url: url and _is_redis_url(url)), Field(description=_ABOUT_REDIS_URLS)
    ] = None
    table: TableName = "interlock-dedup"
    default_ttl: Annotated[
        str,
        AfterValidator(_is_ttl),
        Field(description="how long keys are remembered where a request does not say: 45s, 90m, 12h, 30d; at most 30d"),
    ] = "24h"
    deadline_seconds: Annotated[
        float, Field(gt=0, le=60, description="seconds after which an answer is given with what is known; at most 60")
    ] = 1.0
    buckets: Annotated[
        int | None,
        Field(ge=1, le=65536, description="parts of each run on redis, 1-65536: about its expected keys / 250"),
    ] = None
    remembered_keys: Annotated[
        int,
        Field(
            ge=0,
            le=100_000_000,
            description="keys that each process remembers as seen, to ask no store about them again; 0 for none",
        ),
    ] = 0
    address: Annotated[
        str, Field(pattern=r"^\S+:[0-9]{1,5}$", description="host:port of the service, for commands and crawlers")
    ] = "127.0.0.1:50051"
    token: Annotated[SecretStr | None, Field(description="token that commands show to the service")] = None
    tls_ca_file: Annotated[
        Path | None, Field(description="certificates that the service's own is checked by; makes callers use TLS")
    ] = None
    tls_certificate_file: Annotated[
        Path | None, Field(description="certificate that callers show, where the service asks for one (mTLS)")
    ] = None
    tls_key_file: Annotated[Path | None, Field(description="its private key")] = None


class GrpcSettings(Group):
    """The gRPC server."""

    host: Annotated[str, Field(min_length=1, description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="port, 0-65535; 0 takes a free one")] = 50051
    metrics_port: Annotated[
        int | None,
        Field(ge=0, le=65535, description="port of /metrics; the next ones for further processes; unset for none"),
    ] = None
    max_message_bytes: Annotated[
        int, Field(ge=1 * MIB, le=1024 * MIB, description="largest message, in bytes; at least 1048576")
    ] = 16 * MIB
    grace_seconds: Annotated[
        float, Field(ge=0, le=3600, description="seconds that calls in hand get when the server stops")
    ] = 10.0
    tls_certificate_file: Annotated[
        Path | None, Field(description="the server's certificate and its chain, PEM; unset for plain text")
    ] = None
    tls_key_file: Annotated[Path | None, Field(description="the certificate's private key, PEM")] = None
    tls_client_ca_file: Annotated[
        Path | None, Field(description="certificates that callers' own are checked by; callers need one then (mTLS)")
    ] = None
