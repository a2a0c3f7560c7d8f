"""The commands beside JWTs: what cannot work is told before anybody is served (CONTRACTS § 8)."""

import json
from pathlib import Path

import pytest

from tests.entrypoints.cli import Interlock
from tests.issuer import AUDIENCE, ISSUER, key_set, rsa_jwk


@pytest.fixture
def interlock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Interlock:
    """The command, with the keys of an issuer."""
    command = Interlock(tmp_path, monkeypatch, capsys)
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set(rsa_jwk()))
    monkeypatch.setenv("INTERLOCK_AUTH__JWKS_URL", keys.as_uri())
    monkeypatch.setenv("INTERLOCK_AUTH__JWT_ISSUER", ISSUER)
    monkeypatch.setenv("INTERLOCK_AUTH__JWT_AUDIENCE", AUDIENCE)
    return command


def found(interlock: Interlock, **variables: str) -> tuple[int, dict[str, tuple[str, str]]]:
    run = interlock("doctor", "--json", **variables)
    return run.code, {check["name"]: (check["status"], check["detail"]) for check in json.loads(run.out)}


def test_doctor_fetches_the_keys_that_it_calls_ok(interlock: Interlock) -> None:
    code, checks = found(interlock)
    assert (code, checks["keys of JWTs"][0], checks["tokens file"][0]) == (0, "ok", "ok")
    (interlock.folder / "keys.json").write_text('{"keys": []}')
    code, checks = found(interlock)
    assert (code, checks["keys of JWTs"][0]) == (1, "failed")
    assert "no key that can be used" in checks["keys of JWTs"][1]
    code, checks = found(interlock, INTERLOCK_AUTH__JWT_AUDIENCE="")
    assert (code, "INTERLOCK_AUTH__JWT_AUDIENCE" in checks["keys of JWTs"][1]) == (1, True)


def test_the_api_does_not_start_without_keys_and_nothing_of_it_is_wrong_usage(interlock: Interlock) -> None:
    (interlock.folder / "keys.json").unlink()
    run = interlock("api", "serve", "--port", "0")
    assert (run.code, run.out) == (1, "")
    assert "its keys cannot be fetched: No such file or directory" in run.err


@pytest.mark.parametrize("missing", ["INTERLOCK_AUTH__JWT_ISSUER", "INTERLOCK_AUTH__JWT_AUDIENCE"])
def test_the_api_does_not_start_while_it_is_not_said_whose_tokens_count(interlock: Interlock, missing: str) -> None:
    run = interlock("api", "serve", "--port", "0", **{missing: ""})
    assert (run.code, missing in run.err) == (2, True)


def test_keys_and_an_open_door_do_not_go_together(interlock: Interlock) -> None:
    run = interlock("api", "serve", "--port", "0", "--insecure")
    assert (run.code, "the keys of JWTs are configured" in run.err) == (2, True)
