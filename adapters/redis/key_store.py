"""Keys in Redis or Valkey: one script a call, one round trip whatever the number of keys (R-201, R-209)."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from adapters.redis import scripts
from adapters.redis.cluster import Cluster
from adapters.redis.connection import DEPENDENCY, Channel, Pool, Refusal, Settings, dial
from adapters.redis.layout import BUCKETS, Names, bucket_names, entries, names_of, value_name
from adapters.redis.scripts import Script
from adapters.redis.target import Address, Target, parse_target
from adapters.redis.wire import Reply, Wire, command
from domain.dedup import Scope
from domain.errors import Misconfigured, Unavailable

STEP: Final = 512
"""Buckets that are counted or forgotten, and values that are forgotten, in one command."""

MAX_BUCKETS: Final = 65_536

_MILLISECOND: Final = timedelta(milliseconds=1)


class RedisKeyStore:
    """One target (ports/key_store.py)."""

    def __init__(self, channel: Channel, buckets: int = BUCKETS) -> None:
        """Keep keys behind a channel.

        Args:
            channel: to the servers.
            buckets: of each run; docs/reference/dedup-redis.md says how many.

        Raises:
            Misconfigured: too many of them, or none.
        """
        if not 1 <= buckets <= MAX_BUCKETS:
            raise Misconfigured("buckets", f"must be 1 to {MAX_BUCKETS}")
        self._channel = channel
        self._buckets = buckets

    async def claim(self, scope: Scope, keys: Sequence[str], ttl: timedelta, /) -> list[bool]:
        """Remember keys, and say of each whether it is new, in one round trip. Never sent twice."""
        names = names_of(scope, self._buckets)
        buckets, arguments = _placed(scope, names, keys)
        reply = await self._run(scripts.CLAIM, names, buckets, [_milliseconds(ttl), *arguments])
        return [answer == 1 for answer in reply]

    async def exist(self, scope: Scope, keys: Sequence[str], /) -> list[bool]:
        """Say of each key whether it is remembered, or has a value."""
        names = names_of(scope, self._buckets)
        buckets, arguments = _placed(scope, names, keys)
        reply = await self._run(scripts.EXIST, names, buckets, arguments, again=True)
        return [answer == 1 for answer in reply]

    async def get(self, scope: Scope, key: str, /) -> bytes | None:
        """Give a key's value: empty for one that is remembered without a value, None for an unknown one."""
        names = names_of(scope, self._buckets)
        (entry,), (bucket,) = entries(scope, [key], names.buckets)
        where: list[str | bytes] = [value_name(names, entry), f"{names.bucket}{bucket}"]
        value: bytes | None = await self._run(scripts.GET, names, where, [entry], again=True)
        return value

    async def put(self, scope: Scope, key: str, value: bytes, ttl: timedelta, /) -> None:
        """Give a key a value that lives exactly `ttl`."""
        names = names_of(scope, self._buckets)
        (entry,), _ = entries(scope, [key], names.buckets)
        where: list[str | bytes] = [value_name(names, entry), names.values]
        await self._run(scripts.PUT, names, where, [entry, value, _milliseconds(ttl)], again=True)

    async def count(self, scope: Scope, /) -> int:
        """Give how many keys of a scope were claimed and are remembered."""
        names = names_of(scope, self._buckets)
        return sum([await self._run(scripts.COUNT, names, some, again=True) for some in bucket_names(names, STEP)])

    async def forget(self, scope: Scope, /) -> int:
        """Forget a scope's keys and values in bounded steps, and give how many keys were claimed and remembered."""
        names = names_of(scope, self._buckets)
        while held := await self._do(names, "ZRANGE", names.values, 0, STEP - 1):
            await self._do(names, "UNLINK", *(b"%b:%b" % (names.values.encode(), entry) for entry in held))
            await self._do(names, "ZREM", names.values, *held)
        return sum([await self._run(scripts.FORGET, names, some) for some in bucket_names(names, STEP)])

    async def ping(self) -> None:
        """Ask for an answer.

        Raises:
            Unavailable: there is none.
        """
        await self._do(names_of(Scope("ping", "ping"), self._buckets), "PING")

    async def aclose(self) -> None:
        """Close all connections."""
        await self._channel.aclose()

    async def _run(
        self,
        script: Script,
        names: Names,
        keys: Sequence[str | bytes],
        arguments: Sequence[int | bytes] = (),
        *,
        again: bool = False,
    ) -> Reply:
        """Run a script by its name, and send it whole to a server that does not know it yet."""
        rest = (len(keys), *keys, *arguments)
        try:
            try:
                call = command("EVALSHA", script.sha, *rest)
                return await self._channel.call(call, names.slot, again=again)
            except Refusal as refusal:
                if refusal.code != "NOSCRIPT":
                    raise
            call = command("EVAL", script.source, *rest)
            return await self._channel.call(call, names.slot, again=again)
        except Refusal as refusal:
            raise Unavailable(DEPENDENCY, str(refusal)) from None

    async def _do(self, names: Names, *words: str | int | bytes) -> Reply:
        """Send a command that may be repeated."""
        try:
            return await self._channel.call(command(*words), names.slot, again=True)
        except Refusal as refusal:
            raise Unavailable(DEPENDENCY, str(refusal)) from None


def open_key_store(
    url: str, *, buckets: int = BUCKETS, settings: Settings | None = None, setting: str = "url"
) -> RedisKeyStore:
    """Give a store at a URL (`adapters.redis.target`). It connects with its first call.

    Args:
        url: of a server, its Sentinels, or nodes of a Cluster.
        buckets: of each run.
        settings: how to use connections.
        setting: what the URL is called in the configuration, for messages.

    Raises:
        Misconfigured: a bad URL or count; the text never holds the password.
    """
    return RedisKeyStore(open_channel(parse_target(url, setting), settings or Settings()), buckets)


def open_channel(target: Target, settings: Settings) -> Channel:
    """Give what carries commands to a target."""

    def pool(address: Address) -> Pool:
        return Pool(partial(dial, address, target, settings), settings)

    if target.kind == "single":
        return pool(target.addresses[0])
    # redis-py takes 0.1 s to import, and a single server does without.
    from adapters.redis.discovery import cluster_primaries, sentinel_primary  # noqa: PLC0415

    if target.kind == "cluster":
        return Cluster(partial(cluster_primaries, target, settings), pool)

    async def connect() -> Wire:
        return await dial(await sentinel_primary(target, settings), target, settings)

    return Pool(connect, settings)


def _placed(scope: Scope, names: Names, keys: Sequence[str]) -> tuple[list[str], list[int | bytes]]:
    """Give the keys of a script on buckets, and for each key where among them its bucket is, and its entry."""
    found, numbers = entries(scope, keys, names.buckets)
    places: dict[int, int] = {}
    for number in numbers:
        places.setdefault(number, len(places) + 2)
    arguments: list[int | bytes] = [0] * (2 * len(keys))
    arguments[::2] = [places[number] for number in numbers]
    arguments[1::2] = found
    return [names.values, *(f"{names.bucket}{number}" for number in places)], arguments


def _milliseconds(ttl: timedelta) -> int:
    """Round up: a key lives at least as long as it was given."""
    return -(-ttl // _MILLISECOND)
