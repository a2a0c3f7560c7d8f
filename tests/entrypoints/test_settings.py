import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from domain.errors import Misconfigured
from domain.lifecycle import DEFAULT_LIFECYCLE
from entrypoints.cli.config import config
from entrypoints.logs import mask
from entrypoints.settings import Settings, fields, load_definition, read_variables, variable
from entrypoints.sources import load

ROOT = Path(__file__).parents[2]

# CONTRACTS § 8: the variables of this release and their defaults.
DEFAULTS = {
    "INTERLOCK_ENGINE": "sqlite",
    "INTERLOCK_DATA_DIR": Path(".interlock"),
    "INTERLOCK_EVENTS__TABLE": "interlock-events",
    "INTERLOCK_EVENTS__STATE_SHARDS": 4,
    "INTERLOCK_LIFECYCLE__TOPIC_ARN": None,
    "INTERLOCK_LIFECYCLE__QUEUE_URL": None,
    "INTERLOCK_LIFECYCLE__DEFINITION_FILE": None,
    "INTERLOCK_LIFECYCLE__MAX_RECEIVES": 5,
    "INTERLOCK_LIFECYCLE__VISIBILITY_SECONDS": 30,
    "INTERLOCK_AUTH__TOKENS_FILE": None,
    "INTERLOCK_AUTH__JWKS_URL": None,
    "INTERLOCK_AUTH__JWT_ISSUER": None,
    "INTERLOCK_AUTH__JWT_AUDIENCE": None,
    "INTERLOCK_AUTH__JWT_ALGORITHMS": "RS256,ES256",
    "INTERLOCK_AUTH__JWT_SCOPES_CLAIM": "scope",
    "INTERLOCK_AUTH__JWT_SCOPE_PREFIX": "",
    "INTERLOCK_AUTH__JWKS_MAX_AGE_SECONDS": 300.0,
    "INTERLOCK_HTTP__HOST": "127.0.0.1",
    "INTERLOCK_HTTP__PORT": 8080,
    "INTERLOCK_HTTP__MAX_BODY_BYTES": 8 * 1024 * 1024,
    "INTERLOCK_DEDUP__BACKEND": "memory",
    "INTERLOCK_DEDUP__PRIMARY_URL": None,
    "INTERLOCK_DEDUP__SECONDARY_URL": None,
    "INTERLOCK_DEDUP__TABLE": "interlock-dedup",
    "INTERLOCK_DEDUP__DEFAULT_TTL": "24h",
    "INTERLOCK_DEDUP__DEADLINE_SECONDS": 1.0,
    "INTERLOCK_DEDUP__BUCKETS": None,
    "INTERLOCK_DEDUP__REMEMBERED_KEYS": 0,
    "INTERLOCK_DEDUP__ADDRESS": "127.0.0.1:50051",
    "INTERLOCK_DEDUP__TOKEN": None,
    "INTERLOCK_DEDUP__TLS_CA_FILE": None,
    "INTERLOCK_DEDUP__TLS_CERTIFICATE_FILE": None,
    "INTERLOCK_DEDUP__TLS_KEY_FILE": None,
    "INTERLOCK_GRPC__HOST": "127.0.0.1",
    "INTERLOCK_GRPC__PORT": 50051,
    "INTERLOCK_GRPC__METRICS_PORT": None,
    "INTERLOCK_GRPC__MAX_MESSAGE_BYTES": 16 * 1024 * 1024,
    "INTERLOCK_GRPC__GRACE_SECONDS": 10.0,
    "INTERLOCK_GRPC__TLS_CERTIFICATE_FILE": None,
    "INTERLOCK_GRPC__TLS_KEY_FILE": None,
    "INTERLOCK_GRPC__TLS_CLIENT_CA_FILE": None,
    "INTERLOCK_SETTINGS__TABLE": "interlock-settings",
    "INTERLOCK_SETTINGS__SKIP_LIST_CACHE_SECONDS": 15.0,
    "INTERLOCK_BUS__NAME": "default",
    "INTERLOCK_BUS__QUEUE_URL": None,
    "INTERLOCK_BUS__VISIBILITY_SECONDS": 60,
    "INTERLOCK_BUS__MAX_RECEIVES": 5,
    "INTERLOCK_TEMPORAL__ADDRESS": "localhost:7233",
    "INTERLOCK_TEMPORAL__NAMESPACE": "default",
    "INTERLOCK_TEMPORAL__API_KEY": None,
    "INTERLOCK_TEMPORAL__TLS": None,
    "INTERLOCK_TEMPORAL__TLS_CA_FILE": None,
    "INTERLOCK_TEMPORAL__TLS_CERTIFICATE_FILE": None,
    "INTERLOCK_TEMPORAL__TLS_KEY_FILE": None,
    "INTERLOCK_ROUTER__MAX_ATTEMPTS": 5,
    "INTERLOCK_ROUTER__ATTEMPT_SECONDS": 5.0,
    "INTERLOCK_ROUTER__EXPORT_PATTERNS": '["Export*", "*.export.*"]',
    "INTERLOCK_ROUTER__CATALOG_CACHE_SECONDS": 5.0,
    "INTERLOCK_ROUTER__CATALOG_LEASE_SECONDS": 300.0,
    "INTERLOCK_ROUTER__REMEMBERED_HOURS": 20.0,
    "INTERLOCK_ACTIVITY__TABLE": "interlock-activity",
    "INTERLOCK_ACTIVITY__BUCKET": None,
    "INTERLOCK_ACTIVITY__INLINE_BYTES": 65536,
    "INTERLOCK_ACTIVITY__CURSOR_KEYS": None,
    "INTERLOCK_ACTIVITY__MAX_READS": 200,
    "INTERLOCK_ACTIVITY__MAX_PAGE_BYTES": 2 * 1024 * 1024,
    "INTERLOCK_REDACTION__POLICY_FILE": None,
    "INTERLOCK_REDACTION__MASK_IPS": False,
    "INTERLOCK_REDACTION__PSEUDONYM_KEY": None,
    "INTERLOCK_INTAKE__BUCKET": None,
    "INTERLOCK_INTAKE__QUEUE_URL": None,
    "INTERLOCK_INTAKE__MAX_RECEIVES": 5,
    "INTERLOCK_INTAKE__VISIBILITY_SECONDS": 60,
    "INTERLOCK_INTAKE__WINDOW_SECONDS": 5.0,
    "INTERLOCK_LAKE__TABLE": "interlock.events",
    "INTERLOCK_LAKE__WAREHOUSE": None,
    "INTERLOCK_LAKE__BACK_DAYS": 14,
    "INTERLOCK_LAKE__PROCESSES": 2,
    "INTERLOCK_LAKE__SPILL_DIR": None,
}
GIVEN = {
    "INTERLOCK_ENGINE": "aws",
    "INTERLOCK_DATA_DIR": "/data",
    "INTERLOCK_EVENTS__TABLE": "events",
    "INTERLOCK_EVENTS__STATE_SHARDS": "8",
    "INTERLOCK_LIFECYCLE__TOPIC_ARN": "arn:aws:sns:eu-west-1:123456789012:lifecycle.fifo",
    "INTERLOCK_LIFECYCLE__QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/lifecycle.fifo",
    "INTERLOCK_LIFECYCLE__DEFINITION_FILE": "lifecycle.json",
    "INTERLOCK_LIFECYCLE__MAX_RECEIVES": "3",
    "INTERLOCK_LIFECYCLE__VISIBILITY_SECONDS": "60",
    "INTERLOCK_AUTH__TOKENS_FILE": "tokens.json",
    "INTERLOCK_AUTH__JWKS_URL": "https://id.example/.well-known/jwks.json",
    "INTERLOCK_AUTH__JWT_ISSUER": "https://id.example/",
    "INTERLOCK_AUTH__JWT_AUDIENCE": "interlock",
    "INTERLOCK_AUTH__JWT_ALGORITHMS": "EdDSA",
    "INTERLOCK_AUTH__JWT_SCOPES_CLAIM": "scp",
    "INTERLOCK_AUTH__JWT_SCOPE_PREFIX": "interlock/",
    "INTERLOCK_AUTH__JWKS_MAX_AGE_SECONDS": "60.5",
    "INTERLOCK_HTTP__HOST": "0.0.0.0",  # noqa: S104 - read, not listened on
    "INTERLOCK_HTTP__PORT": "0",
    "INTERLOCK_HTTP__MAX_BODY_BYTES": "1024",
    "INTERLOCK_DEDUP__BACKEND": "redis",
    "INTERLOCK_DEDUP__PRIMARY_URL": "rediss://user:secret@cache.example:6380/1",
    "INTERLOCK_DEDUP__SECONDARY_URL": "redis+cluster://cache.example:6379",
    "INTERLOCK_DEDUP__TABLE": "keys",
    "INTERLOCK_DEDUP__DEFAULT_TTL": "30d",
    "INTERLOCK_DEDUP__DEADLINE_SECONDS": "0.25",
    "INTERLOCK_DEDUP__BUCKETS": "512",
    "INTERLOCK_DEDUP__REMEMBERED_KEYS": "100000",
    "INTERLOCK_DEDUP__ADDRESS": "dedup.example:50051",
    "INTERLOCK_DEDUP__TOKEN": "ilk_0",
    "INTERLOCK_DEDUP__TLS_CA_FILE": "ca.pem",
    "INTERLOCK_DEDUP__TLS_CERTIFICATE_FILE": "mine.pem",
    "INTERLOCK_DEDUP__TLS_KEY_FILE": "mine.key",
    "INTERLOCK_GRPC__HOST": "::1",
    "INTERLOCK_GRPC__PORT": "0",
    "INTERLOCK_GRPC__METRICS_PORT": "9100",
    "INTERLOCK_GRPC__MAX_MESSAGE_BYTES": "4194304",
    "INTERLOCK_GRPC__GRACE_SECONDS": "0.5",
    "INTERLOCK_GRPC__TLS_CERTIFICATE_FILE": "server.pem",
    "INTERLOCK_GRPC__TLS_KEY_FILE": "server.key",
    "INTERLOCK_GRPC__TLS_CLIENT_CA_FILE": "clients.pem",
    "INTERLOCK_SETTINGS__TABLE": "other-settings",
    "INTERLOCK_SETTINGS__SKIP_LIST_CACHE_SECONDS": "5.5",
    "INTERLOCK_BUS__NAME": "events",
    "INTERLOCK_BUS__QUEUE_URL": "https://sqs.us-east-1.amazonaws.com/111122223333/events",
    "INTERLOCK_BUS__VISIBILITY_SECONDS": "90",
    "INTERLOCK_BUS__MAX_RECEIVES": "7",
    "INTERLOCK_TEMPORAL__ADDRESS": "interlock.a1b2c.tmprl.cloud:7233",
    "INTERLOCK_TEMPORAL__NAMESPACE": "interlock.a1b2c",
    "INTERLOCK_TEMPORAL__API_KEY": "key-0",
    "INTERLOCK_TEMPORAL__TLS": "True",
    "INTERLOCK_TEMPORAL__TLS_CA_FILE": "temporal-ca.pem",
    "INTERLOCK_TEMPORAL__TLS_CERTIFICATE_FILE": "temporal.pem",
    "INTERLOCK_TEMPORAL__TLS_KEY_FILE": "temporal.key",
    "INTERLOCK_ROUTER__MAX_ATTEMPTS": "3",
    "INTERLOCK_ROUTER__ATTEMPT_SECONDS": "2.5",
    "INTERLOCK_ROUTER__EXPORT_PATTERNS": '["*Export"]',
    "INTERLOCK_ROUTER__CATALOG_CACHE_SECONDS": "0.5",
    "INTERLOCK_ROUTER__CATALOG_LEASE_SECONDS": "30.5",
    "INTERLOCK_ROUTER__REMEMBERED_HOURS": "71.5",
    "INTERLOCK_ACTIVITY__TABLE": "activity",
    "INTERLOCK_ACTIVITY__BUCKET": "activity.example",
    "INTERLOCK_ACTIVITY__INLINE_BYTES": "393216",
    "INTERLOCK_ACTIVITY__CURSOR_KEYS": f"{'n' * 32},{'o' * 32}",
    "INTERLOCK_ACTIVITY__MAX_READS": "50",
    "INTERLOCK_ACTIVITY__MAX_PAGE_BYTES": "1048576",
    "INTERLOCK_REDACTION__POLICY_FILE": "redaction.json",
    "INTERLOCK_REDACTION__MASK_IPS": "True",
    "INTERLOCK_REDACTION__PSEUDONYM_KEY": "sixteen bytes at least",
    "INTERLOCK_INTAKE__BUCKET": "usage-events",
    "INTERLOCK_INTAKE__QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/usage",
    "INTERLOCK_INTAKE__MAX_RECEIVES": "3",
    "INTERLOCK_INTAKE__VISIBILITY_SECONDS": "360",
    "INTERLOCK_INTAKE__WINDOW_SECONDS": "30.5",
    "INTERLOCK_LAKE__TABLE": "usage.all_events",
    "INTERLOCK_LAKE__WAREHOUSE": "s3://usage-lake/tables",
    "INTERLOCK_LAKE__BACK_DAYS": "3",
    "INTERLOCK_LAKE__PROCESSES": "4",
    "INTERLOCK_LAKE__SPILL_DIR": "/srv/spill",
}
BAD = {
    "INTERLOCK_ENGINE": "postgres",
    "INTERLOCK_EVENTS__TABLE": "no spaces here",
    "INTERLOCK_EVENTS__STATE_SHARDS": "0",
    "INTERLOCK_LIFECYCLE__TOPIC_ARN": "arn:aws:sns:eu-west-1:123456789012:standard",
    "INTERLOCK_LIFECYCLE__QUEUE_URL": "lifecycle.fifo",
    "INTERLOCK_LIFECYCLE__MAX_RECEIVES": "many",
    "INTERLOCK_LIFECYCLE__VISIBILITY_SECONDS": "1",
    "INTERLOCK_HTTP__PORT": "65536",
    "INTERLOCK_AUTH__JWKS_URL": "http://id.example/keys",
    "INTERLOCK_AUTH__JWT_ALGORITHMS": "HS256",
    "INTERLOCK_AUTH__JWKS_MAX_AGE_SECONDS": "1",
    "INTERLOCK_HTTP__MAX_BODY_BYTES": "1e9x",
    "INTERLOCK_DEDUP__BACKEND": "memcached",
    "INTERLOCK_DEDUP__PRIMARY_URL": "http://cache.example",
    "INTERLOCK_DEDUP__SECONDARY_URL": "cache.example:6379",
    "INTERLOCK_DEDUP__TABLE": "no spaces here",
    "INTERLOCK_DEDUP__DEFAULT_TTL": "31d",
    "INTERLOCK_DEDUP__DEADLINE_SECONDS": "61.5",
    "INTERLOCK_DEDUP__BUCKETS": "65537",
    "INTERLOCK_DEDUP__REMEMBERED_KEYS": "-1",
    "INTERLOCK_DEDUP__ADDRESS": "dedup.example",
    "INTERLOCK_GRPC__PORT": "65536",
    "INTERLOCK_GRPC__METRICS_PORT": "-70000",
    "INTERLOCK_GRPC__MAX_MESSAGE_BYTES": "1024",
    "INTERLOCK_GRPC__GRACE_SECONDS": "-1",
    "INTERLOCK_SETTINGS__TABLE": "no spaces here",
    "INTERLOCK_SETTINGS__SKIP_LIST_CACHE_SECONDS": "7200.5",
    "INTERLOCK_BUS__NAME": "no spaces here",
    "INTERLOCK_BUS__QUEUE_URL": "no-url",
    "INTERLOCK_BUS__VISIBILITY_SECONDS": "1",
    "INTERLOCK_BUS__MAX_RECEIVES": "many",
    "INTERLOCK_TEMPORAL__ADDRESS": "temporal.example",
    "INTERLOCK_TEMPORAL__NAMESPACE": "no spaces here",
    "INTERLOCK_TEMPORAL__TLS": "perhaps",
    "INTERLOCK_ROUTER__MAX_ATTEMPTS": "several",
    "INTERLOCK_ROUTER__ATTEMPT_SECONDS": "60.5",
    "INTERLOCK_ROUTER__EXPORT_PATTERNS": '["a", 7]',
    "INTERLOCK_ROUTER__CATALOG_CACHE_SECONDS": "-1",
    "INTERLOCK_ROUTER__CATALOG_LEASE_SECONDS": "1",
    "INTERLOCK_ROUTER__REMEMBERED_HOURS": "-1",
    "INTERLOCK_ACTIVITY__TABLE": "no spaces here",
    "INTERLOCK_ACTIVITY__BUCKET": "Upper_Case",
    "INTERLOCK_ACTIVITY__INLINE_BYTES": "393217",
    "INTERLOCK_ACTIVITY__CURSOR_KEYS": f"{'n' * 32},short",
    "INTERLOCK_ACTIVITY__MAX_READS": "1e5",
    "INTERLOCK_ACTIVITY__MAX_PAGE_BYTES": "1023",
    "INTERLOCK_REDACTION__MASK_IPS": "perhaps",
    "INTERLOCK_REDACTION__PSEUDONYM_KEY": "fifteen bytes..",
    "INTERLOCK_LAKE__TABLE": "no-dots-here",
    "INTERLOCK_LAKE__WAREHOUSE": "/var/lake",
    "INTERLOCK_LAKE__BACK_DAYS": "-77",
    "INTERLOCK_LAKE__PROCESSES": "65",
}


def flat(settings: Settings) -> dict[str, object]:
    dumped = settings.model_dump()
    values: dict[str, object] = {}
    for path, _ in fields():
        value: object = dumped
        for name in path:
            assert isinstance(value, dict)
            value = value[name]
        values[variable(path)] = value.get_secret_value() if isinstance(value, SecretStr) else value
    return values


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Work in an empty folder, with none of our variables set."""
    for name in list(os.environ):
        if name.startswith("INTERLOCK_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def set_all(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_the_defaults_are_those_of_the_contract() -> None:
    assert flat(read_variables({})) == DEFAULTS
    loaded = load()
    assert flat(loaded.settings) == DEFAULTS
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.unknown == []


def test_every_variable_is_read_and_differs_from_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, GIVEN)
    loaded = load()
    assert {name: str(value) for name, value in flat(loaded.settings).items()} == GIVEN
    assert set(loaded.origins.values()) == {"environment"}
    assert flat(read_variables(GIVEN)) == flat(loaded.settings)


@given(st.dictionaries(st.sampled_from(sorted(GIVEN)), st.sampled_from(["", *GIVEN.values(), *BAD.values()])))
def test_lambda_functions_and_processes_read_variables_alike(variables: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        set_all(monkeypatch, variables)
        answers: list[object] = []
        readers: list[Callable[[], Settings]] = [lambda: load().settings, lambda: read_variables(variables)]
        for reader in readers:
            try:
                answers.append(flat(reader()))
            except Misconfigured as error:
                answers.append(str(error))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", BAD)
def test_a_bad_value_is_refused_by_its_name_and_never_repeated(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, BAD[name])
    with pytest.raises(Misconfigured) as refused:
        load()
    assert refused.value.setting == name
    assert "must be: " in refused.value.reason
    assert "(default: " in refused.value.reason
    assert BAD[name] not in str(refused.value)


def test_of_several_bad_values_the_first_is_told_and_the_others_counted() -> None:
    with pytest.raises(Misconfigured, match=rf"INTERLOCK_ENGINE: .*; and {len(BAD) - 1} more to put right"):
        read_variables(BAD)


def test_a_whole_group_in_one_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_EVENTS", '{"table": "events"}')
    with pytest.raises(Misconfigured, match=r"INTERLOCK_EVENTS: is a group; .* such as INTERLOCK_EVENTS__TABLE"):
        load()
    with pytest.raises(Misconfigured, match="INTERLOCK_EVENTS: is a group"):
        read_variables({"interlock_events": "{}"})


def test_the_environment_wins_over_the_file_and_the_file_over_the_default(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clean / ".env").write_text(
        "INTERLOCK_HTTP__PORT=9000\nINTERLOCK_HTTP__HOST=localhost\nINTERLOCK_DATA_DIR=\nOTHER=1\n"
    )
    monkeypatch.setenv("INTERLOCK_HTTP__PORT", "9001")
    loaded = load()
    assert (loaded.settings.http.port, loaded.settings.http.host) == (9001, "localhost")
    assert loaded.settings.data_dir == Path(".interlock")
    assert loaded.origins["http", "port"] == "environment"
    assert loaded.origins["http", "host"] == ".env"
    assert loaded.origins["data_dir",] == "default"
    assert loaded.unknown == []


def test_a_file_that_is_no_text_is_named(clean: Path) -> None:
    (clean / ".env").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Misconfigured, match=r"\.env: cannot be read"):
        load()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("garbage", 1),
        ("A=1\n\n# a comment\n\n  two words=1\n", 5),
        ("A=1\nINTERLOCK_ENGINE\n", 2),
        ("export INTERLOCK_ENGINE", 1),
        ("INTERLOCK_ENGINE: aws", 1),
        ("=aws", 1),
        ('A="1\n2"\nINTERLOCK_ENGINE="aws\n', 3),
        ("A='1\nINTERLOCK_ENGINE=aws\n", 1),
        ('INTERLOCK_ENGINE="aws" or so', 1),
        ("A=1\r\nINTERLOCK_DATA_DIR=a\0b\r\n", 2),
    ],
)
def test_a_line_that_sets_nothing_is_named_and_never_passed_over(content: str, line: int, clean: Path) -> None:
    (clean / ".env").write_bytes(content.encode())
    with pytest.raises(Misconfigured, match=rf"^\.env, line {line}: "):
        load()


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing", "A=\nexport B='1 2' # three\n C = 4\n"])
def test_every_line_that_python_dotenv_reads_is_good(content: str, clean: Path) -> None:
    (clean / ".env").write_text(content)
    assert flat(load().settings) == DEFAULTS


@pytest.mark.parametrize(
    "make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("missing"), lambda path: path.symlink_to(path)]
)
def test_what_is_no_file_is_named_and_not_waited_for(make: Callable[[Path], None], clean: Path) -> None:
    make(clean / ".env")
    with pytest.raises(Misconfigured, match=r"^\.env: .*; it must be a text file of NAME=value lines"):
        load()


def test_bytes_that_are_no_text_are_refused_by_the_name_of_their_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_DATA_DIR", os.fsdecode(b"a\xff"))
    with pytest.raises(Misconfigured, match=r"^INTERLOCK_DATA_DIR: is not UTF-8 text"):
        load()


def test_typing_errors_are_reported_with_what_they_may_have_meant(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_HTTP__PROT", "1")
    monkeypatch.setenv("INTERLOCK_TEST_REDIS_URL", "for the tests")
    (clean / ".env").write_text("INTERLOCK_XYZZY=1\n")
    assert load().unknown == [
        "INTERLOCK_HTTP__PROT sets nothing; did you mean INTERLOCK_HTTP__PORT?",
        "INTERLOCK_XYZZY sets nothing; see `interlock config`",
    ]


def test_r112_the_lifecycle_in_force_is_the_default_or_the_one_in_the_file(clean: Path) -> None:
    assert load_definition(Settings()) is DEFAULT_LIFECYCLE
    file = clean / "lifecycle.json"
    file.write_text(json.dumps({"name": "two", "initial": "a", "terminal": ["b"], "moves": {"a": ["b"], "b": []}}))
    assert load_definition(read_variables({"INTERLOCK_LIFECYCLE__DEFINITION_FILE": str(file)})).states == ("a", "b")


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff", b'{"name": "one"}'])
def test_r112_a_file_without_a_lifecycle_is_named_with_its_variable(content: bytes | None, clean: Path) -> None:
    file = clean / "lifecycle.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(Misconfigured) as refused:
        load_definition(read_variables({"INTERLOCK_LIFECYCLE__DEFINITION_FILE": str(file)}))
    assert refused.value.setting == "INTERLOCK_LIFECYCLE__DEFINITION_FILE"
    assert str(file) in refused.value.reason


def test_passwords_in_urls_and_bearer_tokens_are_masked() -> None:
    assert mask("https://ada:hunter2@sqs.example/1/q.fifo") == "https://[user_info]@sqs.example/1/q.fifo"
    assert mask("with Bearer ilk_1_secret, then") == "with Bearer [credentials], then"
    assert mask("https://sqs.example/1/q.fifo") == "https://sqs.example/1/q.fifo"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://cache.example:6379/0", "redis://cache.example:6379/0"),
        ("rediss://ada:hunter2@cache.example:6380/1", "rediss://***@cache.example:6380/1"),
        ("redis://:hun/ter2@cache.example", "redis://***@cache.example"),
        ("redis://ada:hun?ter2@cache.example", "redis://***"),
        ("redis://cache.example/0?password=hunter2", "redis://***"),
        ("redis://cache.example/0?password=hun@ter2", "redis://***"),
        ("redis+sentinel://:hunter2@a:26379,b:26379/name", "redis+sentinel://***@a:26379,b:26379/name"),
        ("redis+cluster://[::1]:7000", "redis+cluster://[::1]:7000"),
    ],
)
def test_of_secret_urls_only_the_place_is_shown(
    url: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INTERLOCK_DEDUP__PRIMARY_URL", url)
    monkeypatch.setenv("INTERLOCK_DEDUP__TOKEN", "ilk_0_hunter2")
    config(as_json=True)
    rows = {row["variable"]: row["value"] for row in json.loads(capsys.readouterr().out)["settings"]}
    assert rows["INTERLOCK_DEDUP__PRIMARY_URL"] == shown
    assert rows["INTERLOCK_DEDUP__TOKEN"] == "***"
    assert "hunter2" not in repr(load().settings)


def test_the_reference_page_tells_every_variable_with_its_default() -> None:
    rows = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `INTERLOCK_")
    ]
    told = {row[0]: row[1] for row in rows}
    assert told == {name: "" if value is None else str(value) for name, value in DEFAULTS.items()}
