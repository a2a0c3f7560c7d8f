"""What `interlock doctor` looks at: one check a thing that may be wrong, with its fix."""

import asyncio
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Final, Literal, NamedTuple

from domain.dedup import Scope
from domain.errors import InterlockError, Misconfigured, Unavailable
from entrypoints.settings import Settings, load_definition, variable
from entrypoints.sources import Loaded
from ports.key_store import KeyStore

SECONDS: Final = 5.0
"""How long a target of the dedup cache may take."""


class Check(NamedTuple):
    """One thing that was looked at. `fix` is empty where nothing is to be done."""

    name: str
    status: Literal["ok", "warning", "failed"]
    detail: str
    fix: str


async def attempt(
    name: str, look: Callable[[], Awaitable[str | Check]], fix: Callable[[InterlockError], str] | str
) -> Check:
    """Look at a thing: what `look` says or finds, or why it failed, with the fix for that."""
    try:
        seen = await look()
        return seen if isinstance(seen, Check) else Check(name, "ok", seen, "")
    except InterlockError as error:
        return Check(name, "failed", str(error), fix if isinstance(fix, str) else fix(error))


async def checks(loaded: Loaded) -> AsyncIterator[Check]:
    """Look at everything that the settings name."""
    settings = loaded.settings
    for stray in loaded.unknown:
        yield Check("variables", "warning", stray, "correct its name, or remove it")
    yield await attempt("lifecycle", lambda: _lifecycle(settings), "correct the file, or unset the variable")
    yield _tokens(settings)
    if settings.auth.jwks_url is not None:
        fix = "check the address, the network and the certificates, and what is set beside it"
        yield await attempt("keys of JWTs", lambda: _jwts(settings), fix)
    match settings.engine:
        case "memory":
            yield Check("engine", "ok", "memory: gone when the process ends", "")
        case "sqlite":
            from entrypoints.cli import sqlite

            async for check in sqlite.checks(settings):
                yield check
        case "aws":
            from entrypoints.cli import aws

            async for check in aws.checks(settings):
                yield check
            if settings.intake.bucket is not None:
                from entrypoints.cli import aws_intake

                async for check in aws_intake.checks(settings, settings.intake.bucket):
                    yield check
    if loaded.origins["temporal", "address"] != "default":
        from entrypoints.cli import router_checks

        fix = f"start the server, or correct {variable(('temporal', 'address'))} and what stands beside it"
        yield await attempt("temporal", lambda: router_checks.look(settings), fix)
    async for check in _dedup(settings):
        yield check


async def _dedup(settings: Settings) -> AsyncIterator[Check]:
    """Ask each target of the dedup cache for a key that nobody has; nothing is made."""
    backend = settings.dedup.backend
    if backend == "memory":
        yield Check("dedup", "ok", "memory: one process alone, and gone when it ends", "")
        return
    if backend == "sqlite" and not (file := settings.data_dir / "dedup.db").exists():
        yield Check("dedup", "ok", f"sqlite: {file} is made at first use", "")
        return
    from adapters.memory.metrics import MemoryMetrics
    from entrypoints.engines.dedup import open_dedup

    try:
        engine = open_dedup(settings, MemoryMetrics())
    except Misconfigured as error:
        yield Check("dedup", "failed", str(error), "see docs/reference/configuration.md")
        return

    async def look(target: KeyStore) -> str:
        try:
            async with asyncio.timeout(SECONDS):
                await target.exist(Scope("doctor", "doctor"), ("-",))
        except TimeoutError:
            raise Unavailable(backend, f"no answer in {SECONDS:g} s") from None
        return f"{backend}: answers"

    try:
        for name, target in engine.cache.targets.items():
            fix = "interlock tables create" if backend == "dynamodb" else "start it, or correct its address"
            yield await attempt(f"dedup {name}", partial(look, target), fix)
    finally:
        await engine.aclose()


async def _lifecycle(settings: Settings) -> str:
    definition = load_definition(settings)
    return f"{definition.name}: {', '.join(definition.states)}"


async def _jwts(settings: Settings) -> str:
    from entrypoints.engines.access import open_jwts

    judge = open_jwts(settings.auth)
    if judge is not None:
        await judge.check()
    return f"{settings.auth.jwks_url} has some that can be used"


def _tokens(settings: Settings) -> Check:
    from adapters.file.token_file import list_tokens

    path = settings.auth.tokens_file
    create = "interlock token create --name NAME --scope view --expires 30d"
    if path is None and settings.auth.jwks_url is not None:
        return Check("tokens file", "ok", "none is set; JWTs count", "")
    if path is None:
        fix = f"set {variable(('auth', 'tokens_file'))}, then: {create}"
        return Check("tokens file", "warning", "none is set: the API starts on loopback only, with --insecure", fix)
    try:
        records = list_tokens(path)
        mode = stat.S_IMODE(path.stat().st_mode)
    except (Misconfigured, OSError) as error:
        fix = f"{create} --tokens-file {path}" if not path.exists() else "see the file; restore it, or make a new one"
        return Check("tokens file", "failed", str(error), fix)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return Check("tokens file", "failed", f"{path} has mode {mode:04o}: others may read it", f"chmod 600 {path}")
    return Check("tokens file", "ok", f"{path}: {len(records)} tokens", "")
