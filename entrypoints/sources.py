"""Settings of processes and commands: environment variables, then `.env` in the working folder, then defaults."""

import os
import stat
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import ValidationError
from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource, SettingsConfigDict

from domain.errors import Misconfigured
from entrypoints.settings import DELIMITER, PREFIX, Settings, fields, misconfigured, refuse_groups, variable

ENV_FILE: Final = Path(".env")
_LINES: Final = "it must be a text file of NAME=value lines"
_OF_TESTS: Final = f"{PREFIX}TEST_"

Origin = Literal["environment", ".env", "default"]


class Loaded(NamedTuple):
    """Settings in force.

    Attributes:
        origins: where each came from, by its path in `Settings`.
        unknown: variables that look like ours and set nothing, each with what it may have meant.
    """

    settings: Settings
    origins: Mapping[tuple[str, ...], Origin]
    unknown: Sequence[str]


class _Sourced(BaseSettings, Settings):  # pyright: ignore[reportIncompatibleVariableOverride] - one is the base of both
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter=DELIMITER, env_ignore_empty=True, extra="ignore", frozen=True
    )


def load(env_file: Path = ENV_FILE) -> Loaded:
    """Read the settings.

    Args:
        env_file: variables of development; may be missing.

    Raises:
        Misconfigured: naming the variable and what it takes, or the file that cannot be read.
    """
    _refuse_odd_lines(env_file)
    in_file = {name.upper(): value for name, value in dotenv_values(env_file).items() if value}
    given = {name.upper() for name, value in os.environ.items() if value} | in_file.keys()
    refuse_groups(given)
    _refuse_undecodable()
    sources: dict[Origin, dict[str, Any]] = {
        "environment": EnvSettingsSource(_Sourced)(),
        ".env": DotEnvSettingsSource(_Sourced, env_file=env_file)(),
    }
    try:
        settings = Settings.model_validate(_merged(sources[".env"], sources["environment"]))
    except ValidationError as error:
        raise misconfigured(error) from None
    known = [variable(path) for path, _ in fields()]
    strays = sorted(name for name in given if name.startswith(PREFIX) and not name.startswith(_OF_TESTS))
    origins: dict[tuple[str, ...], Origin] = {path: _origin(path, sources) for path, _ in fields()}
    return Loaded(settings, origins, [_stray(name, known) for name in strays if name not in known])


def _refuse_odd_lines(env_file: Path) -> None:
    """Refuse a file of which a part would be passed over, so that no default is taken for what was meant.

    Raises:
        Misconfigured: naming the file, and the line.
    """
    try:
        if not env_file.is_symlink() and not env_file.exists():
            return
        if not stat.S_ISREG(env_file.stat().st_mode):
            raise Misconfigured(str(env_file), f"is no file; {_LINES}")
        text = env_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(str(env_file), f"cannot be read; {_LINES}") from error
    for binding in parse_stream(StringIO(text)):
        original = binding.original.string
        blank_lines = original[: -len(original.lstrip()) or None].count("\n")
        place = f"{env_file}, line {binding.original.line + blank_lines}"
        if binding.error or (binding.key is not None and binding.value is None):
            raise Misconfigured(place, "is not NAME=value; put it right, close its quotes, or put a # before it")
        if "\0" in original:
            raise Misconfigured(place, f"holds a zero byte; {_LINES}")


def _refuse_undecodable() -> None:
    """Refuse bytes that are no text in a variable of ours.

    Raises:
        Misconfigured: naming the variable.
    """
    for name, value in os.environ.items():
        if name.upper().startswith(PREFIX):
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Misconfigured(name.upper(), "is not UTF-8 text") from None


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one tree of settings over another."""
    groups = {name for name in below.keys() & above.keys() if isinstance(above[name], Mapping)}
    return {**below, **above, **{name: _merged(below[name], above[name]) for name in groups}}


def _origin(path: tuple[str, ...], sources: Mapping[Origin, object]) -> Origin:
    for origin, values in sources.items():
        if _holds(values, path):
            return origin
    return "default"


def _holds(values: object, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(values, Mapping) or name not in values:
            return False
        values = values[name]
    return True


def _stray(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name.removeprefix(PREFIX), [other.removeprefix(PREFIX) for other in known], n=1)
    return f"{name} sets nothing" + (f"; did you mean {PREFIX}{close[0]}?" if close else "; see `interlock config`")
