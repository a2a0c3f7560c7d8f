"""Settings of processes and commands: environment variables, then `.env` in the working folder, then defaults."""

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from dotenv import dotenv_values
from pydantic import ValidationError
from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource, SettingsConfigDict

from domain.errors import Misconfigured
from entrypoints.settings import DELIMITER, PREFIX, Settings, fields, misconfigured, refuse_groups, variable

ENV_FILE: Final = Path(".env")
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
    try:
        in_file = {name.upper(): value for name, value in dotenv_values(env_file).items() if value}
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(str(env_file), "cannot be read; it must be a text file of NAME=value lines") from error
    given = {name.upper() for name, value in os.environ.items() if value} | in_file.keys()
    refuse_groups(given)
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
