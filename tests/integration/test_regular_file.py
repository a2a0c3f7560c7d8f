"""Files that people name are read whole, and what would never end is refused."""

import os
from pathlib import Path

import pytest

from adapters.file.regular import MAX_BYTES, read_regular
from adapters.grpc.pem import read_certificates
from domain.errors import Invalid, Misconfigured
from entrypoints.engines.router import open_temporal
from entrypoints.groups.router import TemporalSettings
from entrypoints.redaction import load_policy
from entrypoints.settings import Settings, load_definition


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * MAX_BYTES)
    raw, status = read_regular(path)
    assert (len(raw), status.st_ino) == (MAX_BYTES, path.stat().st_ino)


@pytest.fixture(params=["pipe", "folder", "device", "big"])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "odd"
    match request.param:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            with path.open("wb") as file:
                file.truncate(MAX_BYTES + 1)
    return path


def test_what_is_no_file_or_over_the_limit_is_refused(odd: Path) -> None:
    with pytest.raises(Invalid, match=r"must be a regular file|must have at most 16777216 bytes"):
        read_regular(odd)


def test_settings_that_name_such_a_file_are_named(odd: Path) -> None:
    settings = Settings.model_validate({"redaction": {"policy_file": odd}, "lifecycle": {"definition_file": odd}})
    with pytest.raises(Misconfigured, match=r"INTERLOCK_REDACTION__POLICY_FILE.*odd: it must"):
        load_policy(settings)
    with pytest.raises(Misconfigured, match=r"INTERLOCK_LIFECYCLE__DEFINITION_FILE.*odd: it must"):
        load_definition(settings)
    with pytest.raises(Misconfigured, match=r"INTERLOCK_TEMPORAL__TLS_CA_FILE.*odd: it must"):
        open_temporal(TemporalSettings(tls_ca_file=odd))
    with pytest.raises(Misconfigured, match=r"INTERLOCK_GRPC__TLS_CLIENT_CA_FILE.*odd: it must"):
        read_certificates(odd, "INTERLOCK_GRPC__TLS_CLIENT_CA_FILE")
