"""The TOKEN authorizer: 401 by its one word, 403 by a policy, and never a word of a token (R-501, FC-37)."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.file.token_file import add_token, remove_token
from domain.access import IssuedToken, Scope, issue_token
from domain.errors import Misconfigured, Unavailable
from entrypoints.aws_lambda import authorizer
from entrypoints.aws_lambda.authorizer import Judge, Unauthorized, handler
from tests.entrypoints.lambda_events import Context
from tests.issuer import AUDIENCE, ISSUER, a_token, key_set, rsa_jwk

ROOT = Path(__file__).parents[2]
STAGE = "arn:aws:execute-api:us-east-1:123456789012:abcdef1234/prod"
INTAKE = f"{STAGE}/POST/v1/intake"


@pytest.fixture
def tokens_file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


@pytest.fixture
def judge(tokens_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set(rsa_jwk()))
    made = Judge(
        {
            "INTERLOCK_AUTH__TOKENS_FILE": str(tokens_file),
            "INTERLOCK_AUTH__JWKS_URL": keys.as_uri(),
            "INTERLOCK_AUTH__JWT_ISSUER": ISSUER,
            "INTERLOCK_AUTH__JWT_AUDIENCE": AUDIENCE,
        }
    )
    monkeypatch.setattr(authorizer, "JUDGE", made)
    issue(tokens_file, 0, "view")
    yield made
    made.runner.close()


def issue(path: Path, number: int, *scopes: Scope) -> IssuedToken:
    token = issue_token(f"caller {number}", scopes, datetime.now(UTC) + timedelta(hours=1), bytes([number]) * 40)
    add_token(path, token.record)
    return token


def asked(token: object, arn: object = INTAKE) -> dict[str, Any]:
    return {"type": "TOKEN", "authorizationToken": token, "methodArn": arn}


def bearer(token: IssuedToken) -> str:
    return f"Bearer {token.text.get_secret_value()}"


def resources(answer: dict[str, Any]) -> tuple[str, set[str]]:
    (statement,) = answer["policyDocument"]["Statement"]
    return statement["Effect"], {resource.removeprefix(f"{STAGE}/") for resource in statement["Resource"]}


@pytest.mark.usefixtures("judge")
def test_r501_a_good_token_opens_what_its_scopes_open(tokens_file: Path) -> None:
    answer = handler(asked(bearer(issue(tokens_file, 1, "ingest"))), Context())
    assert answer["principalId"] == "caller 1"
    assert resources(answer) == ("Allow", {"POST/v1/intake", "POST/v1/events", "GET/healthz", "GET/readyz"})
    json.dumps(answer)


@pytest.mark.usefixtures("judge")
def test_a_jwt_opens_what_its_scopes_open() -> None:
    soon = int(datetime.now(UTC).timestamp()) + 60
    answer = handler(asked(f"bearer   {a_token(exp=soon, scope='ingest', sub='service-7')}"), Context())
    assert answer["principalId"] == "service-7"
    assert resources(answer)[0] == "Allow"
    nothing = handler(asked(f"Bearer {a_token(exp=soon, scope='profile')}"), Context())
    assert resources(nothing) == ("Deny", {"*"})


@pytest.mark.usefixtures("judge")
@pytest.mark.parametrize(
    "event",
    [
        asked(None), asked(""), asked(5), asked("ilk_secret"), asked("Basic c2VjcmV0"), asked("Bearer"),
        asked("Bearer  "),
        asked("Bearer ilk_0000000000000000_" + "B" * 43), asked("Bearer secret secret"), asked("Bearer secret\n"),
        asked("Bearer sécret"), asked(["Bearer secret"]), asked("Bearer " + "secret." * 50_000),
        asked(f"Bearer {a_token(exp=1)}"), asked(f"Bearer {a_token()}x"), {}, {"type": "REQUEST", "headers": {}},
        {"Records": []}, None, [], "secret",
    ],
    ids=lambda event: str(event)[:60],
)  # fmt: skip
def test_fc37_what_is_no_good_token_is_401_whatever_it_is_and_is_not_logged(
    event: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Unauthorized) as refused:
        handler(event, Context())
    assert str(refused.value) == "Unauthorized", "API Gateway goes by this text"
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line).keys() == {"level", "event", "request_id", "code"}
    assert "secret" not in line
    assert "ey" not in line.replace("key", "")


@pytest.mark.usefixtures("judge")
@pytest.mark.parametrize("arn", [None, "", "arn:aws:s3:::bucket", STAGE, 5])
def test_a_good_token_with_an_event_of_another_kind_opens_nothing(tokens_file: Path, arn: object) -> None:
    token = issue(tokens_file, 1, "ingest")
    with pytest.raises(Unauthorized):
        handler(asked(bearer(token), arn), Context())


@pytest.mark.usefixtures("judge")
def test_fc37_a_revoked_token_opens_nothing_from_the_next_call_on(tokens_file: Path) -> None:
    token = issue(tokens_file, 1, "ingest")
    assert resources(handler(asked(bearer(token)), Context()))[0] == "Allow"
    remove_token(tokens_file, token.record.id)
    with pytest.raises(Unauthorized):
        handler(asked(bearer(token)), Context())


@pytest.mark.usefixtures("judge")
def test_tokens_that_cannot_be_judged_are_not_called_bad(tokens_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = issue(tokens_file, 1, "ingest")
    tokens_file.unlink()
    with pytest.raises(Unavailable):
        handler(asked(bearer(token)), Context())
    assert json.loads(capsys.readouterr().out)["event"] == "cannot judge"


def test_without_anything_to_judge_by_nobody_gets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer, "JUDGE", Judge({}))
    with pytest.raises(Misconfigured, match="INTERLOCK_AUTH__TOKENS_FILE"):
        handler(asked("Bearer x"), Context())


@pytest.mark.parametrize("missing", ["INTERLOCK_AUTH__JWT_ISSUER", "INTERLOCK_AUTH__JWT_AUDIENCE"])
def test_jwts_are_not_judged_without_issuer_and_audience(missing: str) -> None:
    variables = {
        "INTERLOCK_AUTH__JWKS_URL": "https://id.example/keys",
        "INTERLOCK_AUTH__JWT_ISSUER": ISSUER,
        "INTERLOCK_AUTH__JWT_AUDIENCE": AUDIENCE,
    }
    with pytest.raises(Misconfigured, match=missing):
        Judge({name: value for name, value in variables.items() if name != missing})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JWKS_URL", "http://id.example/keys"),
        ("JWKS_URL", "https://user:password@id.example/keys"),
        ("JWT_ALGORITHMS", "HS256"),
        ("JWT_ALGORITHMS", "none"),
        ("JWT_ALGORITHMS", "RS256, ES256"),
        ("JWKS_MAX_AGE_SECONDS", "1"),
    ],
)
def test_a_setting_that_would_let_somebody_in_is_refused(name: str, value: str) -> None:
    with pytest.raises(Misconfigured, match=f"INTERLOCK_AUTH__{name}"):
        Judge({f"INTERLOCK_AUTH__{name}": value})


def test_g19_the_function_loads_no_library_of_another_job() -> None:
    code = "import sys, entrypoints.aws_lambda.authorizer; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"INTERLOCK_AUTH__TOKENS_FILE": "tokens.json", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert "pydantic" in loaded
    assert not loaded & {
        "boto3",
        "cryptography",
        "fastapi",
        "jwt",
        "pydantic_settings",
        "sqlite3",
        "structlog",
        "typer",
    }
