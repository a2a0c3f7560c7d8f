"""The event router: what is stored for it, the bus before it and Temporal behind it."""

from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from domain.errors import Invalid
from domain.json_reader import read_json
from entrypoints.groups.base import Group, TableName


class StoredSettings(Group):
    """What operators and workers set while the system runs: skip list, workflow catalog, start ledger."""

    table: TableName = "interlock-settings"
    skip_list_cache_seconds: Annotated[
        float, Field(ge=0.1, le=3600, description="seconds after which the router knows a change of the skip list")
    ] = 15.0


class BusSettings(Group):
    """The event bus, and the queue that a rule of it feeds."""

    name: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9:/_.-]{1,1600}$", description="name or ARN of the EventBridge bus that events go to"
        ),
    ] = "default"
    queue_url: Annotated[
        str | None,
        Field(pattern=r"^https?://\S+$", description="URL of the SQS queue that `interlock worker events` drains"),
    ] = None
    visibility_seconds: Annotated[
        int, Field(ge=2, le=43200, description="seconds that a received event stays hidden, 2-43200")
    ] = 60
    max_receives: Annotated[
        int, Field(ge=1, le=1000, description="deliveries before an event goes to the dead-letter queue, 1-1000")
    ] = 5


class TemporalSettings(Group):
    """The Temporal server that runs workflows. The API key is never printed."""

    address: Annotated[str, Field(pattern=r"^\S+:[0-9]{1,5}$", description="host:port of the Temporal server")] = (
        "localhost:7233"
    )
    namespace: Annotated[
        str, Field(pattern=r"^\S{1,255}$", description="namespace that workflows run in: 1-255 characters")
    ] = "default"
    api_key: Annotated[SecretStr | None, Field(description="API key, as of Temporal Cloud; it brings TLS with it")] = (
        None
    )
    tls: Annotated[
        bool | None, Field(description="true or false; unset: TLS where there is an API key or a certificate")
    ] = None
    tls_ca_file: Annotated[
        Path | None, Field(description="certificates that the server's own is checked by, PEM; unset for the system's")
    ] = None
    tls_certificate_file: Annotated[
        Path | None, Field(description="certificate that we show, PEM, where the server asks for one (mTLS)")
    ] = None
    tls_key_file: Annotated[Path | None, Field(description="its private key, PEM")] = None


MAX_PATTERNS: Final = 100


def read_patterns(text: str) -> tuple[str, ...]:
    """Read a JSON list of shell patterns.

    Raises:
        ValueError: it is none, or has an empty or too long pattern, or too many.
    """
    try:
        given = read_json(text.encode())
    except Invalid as error:
        raise ValueError(error.reason) from None
    listed = given if isinstance(given, list) else [None]
    patterns = tuple(pattern for pattern in listed if isinstance(pattern, str) and 1 <= len(pattern) <= MAX_PATTERNS)
    if len(patterns) < len(listed) or len(patterns) > MAX_PATTERNS:
        raise ValueError("no list of patterns")
    return patterns


def _is_patterns(text: str) -> str:
    read_patterns(text)
    return text


class RouterSettings(Group):
    """The event router."""

    max_attempts: Annotated[int, Field(ge=1, le=100, description="how often a start is asked for at all, 1-100")] = 5
    attempt_seconds: Annotated[
        float, Field(gt=0, le=60, description="seconds that one answer of Temporal is waited for; at most 60")
    ] = 5.0
    export_patterns: Annotated[
        str,
        AfterValidator(_is_patterns),
        Field(description="JSON list of shell patterns: event types that go to the task queue exports; at most 100"),
    ] = '["Export*", "*.export.*"]'
    catalog_cache_seconds: Annotated[
        float, Field(ge=0, le=3600, description="seconds after which the router looks for new workflows; at most 3600")
    ] = 5.0
    catalog_lease_seconds: Annotated[
        float,
        Field(
            ge=3, le=86400, description="seconds after which a worker that says nothing more counts as gone, 3-86400"
        ),
    ] = 300.0
    remembered_hours: Annotated[
        float,
        Field(
            ge=0,
            le=8760,
            description="events older than so many hours are looked up in the start ledger first; less than the "
            "retention of the Temporal namespace; 0 looks up every event",
        ),
    ] = 20.0
