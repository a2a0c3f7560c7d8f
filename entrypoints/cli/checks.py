"""What `interlock doctor` looks at: one check a thing that may be wrong, with its fix."""

import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Literal, NamedTuple

from domain.errors import InterlockError, Misconfigured
from entrypoints.settings import Settings, load_definition, variable
from entrypoints.sources import Loaded


class Check(NamedTuple):
    """One thing that was looked at. `fix` is empty where nothing is to be done."""

    name: str
    status: Literal["ok", "warning", "failed"]
    detail: str
    fix: str


async def attempt(name: str, look: Callable[[], Awaitable[str]], fix: str) -> Check:
    """Look at a thing: what `look` says, or why it failed."""
    try:
        return Check(name, "ok", await look(), "")
    except InterlockError as error:
        return Check(name, "failed", str(error), fix)


async def checks(loaded: Loaded) -> AsyncIterator[Check]:
    """Look at everything that the settings name."""
    settings = loaded.settings
    for stray in loaded.unknown:
        yield Check("variables", "warning", stray, "correct its name, or remove it")
    yield await attempt("lifecycle", lambda: _lifecycle(settings), "correct the file, or unset the variable")
    yield _tokens(settings)
    match settings.engine:
        case "memory":
            yield Check("engine", "ok", "memory: gone when the process ends", "")
        case "sqlite":
            yield await attempt(
                "engine",
                lambda: _sqlite(settings),
                f"check the folder and its permissions, or set {variable(('data_dir',))}",
            )
        case "aws":
            from entrypoints.cli import aws

            async for check in aws.checks(settings):
                yield check


async def _lifecycle(settings: Settings) -> str:
    definition = load_definition(settings)
    return f"{definition.name}: {', '.join(definition.states)}"


async def _sqlite(settings: Settings) -> str:
    """Open the files and read from both; where there are none yet, see whether they could be made."""
    from entrypoints.engines.sqlite import SqliteEngine

    engine = SqliteEngine(settings)
    if not all(file.exists() for file in engine.files):
        folder = next(
            folder for folder in (settings.data_dir, *settings.data_dir.absolute().parents) if folder.exists()
        )
        if not folder.is_dir():
            raise Misconfigured(str(folder), "is not a folder")
        return f"sqlite: no files in {settings.data_dir} yet; they are made at first use"
    try:
        await engine.store.head("-")
        await engine.queue.delete([])
    finally:
        await engine.aclose()
    return f"sqlite: {settings.data_dir}"


def _tokens(settings: Settings) -> Check:
    from domain.access import read_tokens

    path = settings.auth.tokens_file
    create = "interlock token create --name NAME --scope view --expires 30d"
    if path is None:
        fix = f"set {variable(('auth', 'tokens_file'))}, then: {create}"
        return Check("tokens file", "warning", "none is set: the API starts on loopback only, with --insecure", fix)
    try:
        mode = stat.S_IMODE(Path(path).stat().st_mode)
        records = read_tokens(path.read_bytes())
    except OSError as error:
        return Check("tokens file", "failed", f"{path}: {error.strerror}", f"{create} --tokens-file {path}")
    except InterlockError as error:
        return Check(
            "tokens file", "failed", f"{path}: {error}", "restore it from a copy, or remove it and make new tokens"
        )
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return Check("tokens file", "failed", f"{path} has mode {mode:04o}: others may read it", f"chmod 600 {path}")
    return Check("tokens file", "ok", f"{path}: {len(records)} tokens", "")
