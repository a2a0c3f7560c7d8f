"""What can be set, and from which variables (CONTRACTS § 8; docs/reference/configuration.md).

The models need pydantic alone: a Lambda function reads its variables with `read_variables`, because pydantic-settings
would add a fifth to its cold start (goal G19). Everything else reads through `entrypoints.sources`.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from domain.cursor import MIN_KEY_BYTES
from domain.dedup import MAX_TTL
from domain.errors import Invalid, Misconfigured
from domain.json_reader import read_json
from domain.lifecycle import DEFAULT_LIFECYCLE, LifecycleDefinition, read_definition
from entrypoints.durations import read_duration

PREFIX: Final = "INTERLOCK_"
DELIMITER: Final = "__"

MIB: Final = 1024 * 1024

REDIS_SCHEMES: Final = ("redis://", "rediss://", "redis+cluster://", "redis+sentinel://")
_ABOUT_REDIS_URLS: Final = (
    "a URL: redis://host:port/0, rediss://host:port/0, redis+cluster://host:port or redis+sentinel://host:port,…/name"
)

YIELDING: Final = 10
"""Added to the niceness of machine-side processes that share one machine with the API: operators go first (R-108)."""


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True)


class EventsSettings(_Group):
    """Where events are kept."""

    table: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9_.-]{3,255}$", description="name of the DynamoDB table: 3-255 of A-Z a-z 0-9 _ . -"),
    ] = "interlock-events"
    state_shards: Annotated[
        int,
        Field(ge=1, le=64, description="index partitions for each state on DynamoDB, 1-64; raise it, never lower it"),
    ] = 4


class LifecycleSettings(_Group):
    """The lifecycle, its topic and its queue."""

    topic_arn: Annotated[
        str | None,
        Field(
            pattern=r"^arn:[a-z-]+:sns:[a-z0-9-]*:[0-9]*:[A-Za-z0-9_-]{1,251}\.fifo$",
            description="ARN of the SNS FIFO topic, as `interlock tables create` prints it",
        ),
    ] = None
    queue_url: Annotated[
        str | None,
        Field(
            pattern=r"^https?://\S+/[A-Za-z0-9_-]{1,75}\.fifo$",
            description="URL of the SQS FIFO queue, as `interlock tables create` prints it",
        ),
    ] = None
    definition_file: Annotated[
        Path | None, Field(description="JSON file with states and moves; unset means the five states of Interlock")
    ] = None
    max_receives: Annotated[
        int, Field(ge=1, le=1000, description="deliveries before a message goes to the dead-letter queue, 1-1000")
    ] = 5
    visibility_seconds: Annotated[
        int, Field(ge=2, le=43200, description="seconds that a received message stays hidden, 2-43200")
    ] = 30


JWT_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


def _are_algorithms(text: str) -> str:
    if not set(text.split(",")) <= set(JWT_ALGORITHMS):
        raise ValueError("others")
    return text


class AuthSettings(_Group):
    """Who may call the API."""

    tokens_file: Annotated[
        Path | None, Field(description="file of hashed tokens, made by `interlock token create`")
    ] = None
    jwks_url: Annotated[
        str | None,
        Field(
            pattern=r"^(https://[^\s/@]+(/\S*)?|file:///\S+)$",
            description="keys of the issuer of JWTs: https:// or file://",
        ),
    ] = None
    jwt_issuer: Annotated[
        str | None, Field(min_length=1, description="`iss` of JWTs, exactly; needed with jwks_url")
    ] = None
    jwt_audience: Annotated[
        str | None, Field(min_length=1, description="`aud` of JWTs, or one of its values; needed with jwks_url")
    ] = None
    jwt_algorithms: Annotated[
        str,
        AfterValidator(_are_algorithms),
        Field(
            description=f"signatures of JWTs that count, with commas between them; among {', '.join(JWT_ALGORITHMS)}"
        ),
    ] = "RS256,ES256"
    jwt_scopes_claim: Annotated[
        str, Field(min_length=1, description="claim of JWTs with the scopes: a list, or text with spaces between them")
    ] = "scope"
    jwt_scope_prefix: Annotated[str, Field(description="what stands before ingest, view and operate in that claim")] = (
        ""
    )
    jwks_max_age_seconds: Annotated[
        float, Field(ge=20, le=86400, description="seconds after which a key that the issuer took back counts no more")
    ] = 300.0

    @property
    def is_set(self) -> bool:
        """Whether there is anything that tokens are judged by."""
        return self.tokens_file is not None or self.jwks_url is not None


class HttpSettings(_Group):
    """The HTTP server."""

    host: Annotated[str, Field(min_length=1, description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="port, 0-65535; 0 takes a free one")] = 8080
    max_body_bytes: Annotated[
        int, Field(ge=1024, le=1024 * MIB, description="largest request body, in bytes; at least 1024")
    ] = 8 * MIB


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


class DedupSettings(_Group):
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
    table: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9_.-]{3,255}$", description="name of the DynamoDB table: 3-255 of A-Z a-z 0-9 _ . -"),
    ] = "interlock-dedup"
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


class GrpcSettings(_Group):
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


class StoredSettings(_Group):
    """What operators and workers set while the system runs: skip list, workflow catalog, start ledger."""

    table: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9_.-]{3,255}$", description="name of the DynamoDB table: 3-255 of A-Z a-z 0-9 _ . -"),
    ] = "interlock-settings"
    skip_list_cache_seconds: Annotated[
        float, Field(ge=0.1, le=3600, description="seconds after which the router knows a change of the skip list")
    ] = 15.0


class BusSettings(_Group):
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


class TemporalSettings(_Group):
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


class RouterSettings(_Group):
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


def _are_cursor_keys(keys: SecretStr) -> SecretStr:
    if any(len(key.encode()) < MIN_KEY_BYTES for key in keys.get_secret_value().split(",")):
        raise ValueError("a key that is too short")
    return keys


class ActivitySettings(_Group):
    """Where the activity of accounts is kept, and how it is read."""

    table: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9_.-]{3,255}$", description="name of the DynamoDB table: 3-255 of A-Z a-z 0-9 _ . -"),
    ] = "interlock-activity"
    bucket: Annotated[
        str | None,
        Field(
            pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
            description="S3 bucket of events that are too large for a row; unset: they are refused on aws",
        ),
    ] = None
    inline_bytes: Annotated[
        int,
        Field(ge=1024, le=384 * 1024, description="largest event that is kept in its row, in bytes, 1024-393216"),
    ] = 64 * 1024
    cursor_keys: Annotated[
        SecretStr | None,
        AfterValidator(lambda keys: keys and _are_cursor_keys(keys)),
        Field(
            description="secrets of 32 or more bytes, separated by commas: the first signs cursors, all are taken; "
            "unset: the store makes one"
        ),
    ] = None
    max_reads: Annotated[
        int, Field(ge=1, le=10_000, description="reads of the store for one page, 1-10000; then it ends with a cursor")
    ] = 200
    max_page_bytes: Annotated[
        int, Field(ge=1024, le=64 * MIB, description="bytes of one page, 1024-67108864; then it ends with a cursor")
    ] = 2 * MIB


def _is_pseudonym_key(key: SecretStr) -> SecretStr:
    if not 16 <= len(key.get_secret_value().encode()) <= 1024:  # noqa: PLR2004 - domain.redaction
        raise ValueError("another length")
    return key


class RedactionSettings(_Group):
    """What readers do not get to see, beyond what nobody does. The key is never printed."""

    policy_file: Annotated[
        Path | None, Field(description="JSON file with names, safe-lists and options of redaction; unset: the defaults")
    ] = None
    mask_ips: Annotated[bool, Field(description="whether IP addresses are masked: true or false")] = False
    pseudonym_key: Annotated[
        SecretStr | None,
        AfterValidator(lambda key: key and _is_pseudonym_key(key)),
        Field(
            description="secret of 16 to 1024 bytes: equal personal values get equal pseudonyms in place of masks; "
            "unset: masks"
        ),
    ] = None


class IntakeSettings(_Group):
    """The front door: its queue, and where its messages are kept."""

    bucket: Annotated[
        str | None,
        Field(
            pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
            description="name of the S3 bucket: 3-63 of a-z 0-9 . -, as `interlock tables create` prints it",
        ),
    ] = None
    queue_url: Annotated[
        str | None,
        Field(
            pattern=r"^https?://\S+/[A-Za-z0-9_-]{1,80}$",
            description="URL of the SQS standard queue, as `interlock tables create` prints it",
        ),
    ] = None
    max_receives: Annotated[
        int, Field(ge=1, le=1000, description="deliveries before a message goes to the dead-letter queue, 1-1000")
    ] = 5
    visibility_seconds: Annotated[
        int, Field(ge=2, le=43200, description="seconds that a received message stays hidden, 2-43200")
    ] = 60
    window_seconds: Annotated[
        float,
        Field(
            ge=0,
            le=300,
            description="seconds that `interlock worker intake` gathers messages for one object, at most 300; "
            "at most a third of visibility_seconds counts",
        ),
    ] = 5.0


class LakeSettings(_Group):
    """The lake: the table that the daily job fills and `interlock query` reads."""

    table: Annotated[
        str,
        Field(pattern=r"^[a-z0-9_]{1,128}\.[a-z0-9_]{1,128}$", description="name of the table: database.table"),
    ] = "interlock.events"
    warehouse: Annotated[
        str | None,
        Field(
            pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/\S*)?$",
            description="where the table's files are on aws: s3://bucket/folder; unset means lake/ in the intake's one",
        ),
    ] = None
    back_days: Annotated[
        int,
        Field(
            ge=0,
            le=366,
            description="days before its own that the daily job looks at for objects that came after their day, 0-366",
        ),
    ] = 14
    processes: Annotated[
        int,
        Field(ge=1, le=64, description="processes of the daily job, 1-64; each needs about 300 MB"),
    ] = 2
    spill_dir: Annotated[
        Path | None,
        Field(description="folder for the daily job's temporary files; unset means the system's folder for such"),
    ] = None


class Settings(_Group):
    """Everything that can be set."""

    engine: Annotated[
        Literal["memory", "sqlite", "aws"],
        Field(description="the stores and queues behind the ports: memory, sqlite, aws"),
    ] = "sqlite"
    data_dir: Annotated[Path, Field(description="folder of the sqlite engine's files")] = Path(".interlock")
    events: EventsSettings = EventsSettings()
    lifecycle: LifecycleSettings = LifecycleSettings()
    auth: AuthSettings = AuthSettings()
    http: HttpSettings = HttpSettings()
    dedup: DedupSettings = DedupSettings()
    grpc: GrpcSettings = GrpcSettings()
    settings: StoredSettings = StoredSettings()
    bus: BusSettings = BusSettings()
    temporal: TemporalSettings = TemporalSettings()
    router: RouterSettings = RouterSettings()
    activity: ActivitySettings = ActivitySettings()
    redaction: RedactionSettings = RedactionSettings()
    intake: IntakeSettings = IntakeSettings()
    lake: LakeSettings = LakeSettings()


def fields(
    model: type[BaseModel] = Settings, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Give each setting's path and field, in the order of the models."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from fields(field.annotation, (*path, name))
        else:
            yield (*path, name), field


def variable(path: tuple[str, ...]) -> str:
    """Name the variable of a setting: `INTERLOCK_HTTP__PORT`."""
    return PREFIX + DELIMITER.join(path).upper()


def refuse_groups(given: Collection[str]) -> None:
    """Refuse a whole group in one variable, as JSON: settings have one form each.

    Args:
        given: names of variables, in upper case.

    Raises:
        Misconfigured: naming the variable.
    """
    for group in {path[0] for path, _ in fields() if len(path) > 1}:
        if variable((group,)) in given:
            example = next(variable(path) for path, _ in fields() if path[0] == group)
            raise Misconfigured(variable((group,)), f"is a group; set its variables one by one, such as {example}")


def read_variables(variables: Mapping[str, str]) -> Settings:
    """Read settings from environment variables; an empty one counts as unset.

    Raises:
        Misconfigured: naming the variable and what it takes.
    """
    given = {name.upper(): value for name, value in variables.items() if value}
    refuse_groups(given)
    tree: dict[str, Any] = {}
    for path, _ in fields():
        value = given.get(variable(path))
        if value is not None:
            branch = tree
            for name in path[:-1]:
                branch = branch.setdefault(name, {})
            branch[path[-1]] = value
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        raise misconfigured(error) from None


def misconfigured(error: ValidationError) -> Misconfigured:
    """Say which variable cannot work, and what it takes; never what it holds.

    Args:
        error: from `Settings`; the first complaint is told, and how many others there are.
    """
    complaints = error.errors(include_input=False, include_url=False)
    wrong = tuple(str(part) for part in complaints[0]["loc"])
    field = dict(fields())[wrong]
    reason = f"must be: {field.description} (default: {'unset' if field.default is None else field.default})"
    others = len(complaints) - 1
    return Misconfigured(variable(wrong), reason + (f"; and {others} more to put right" if others else ""))


def load_definition(settings: Settings) -> LifecycleDefinition:
    """Give the lifecycle in force (R-112).

    Raises:
        Misconfigured: its file cannot be read, or does not hold a lifecycle.
    """
    file = settings.lifecycle.definition_file
    if file is None:
        return DEFAULT_LIFECYCLE
    name = variable(("lifecycle", "definition_file"))
    try:
        return read_definition(file.read_bytes())
    except OSError as error:
        raise Misconfigured(name, f"{file} cannot be read: {error.strerror}") from error
    except Invalid as error:
        raise Misconfigured(name, f"{file}: {error}") from None
