"""Where the primaries are, asked of Sentinels or of a Cluster through redis-py."""

from collections.abc import Sequence
from typing import Any

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisClusterException, RedisError

from adapters.redis.connection import DEPENDENCY, Settings
from adapters.redis.target import Address, Target
from domain.errors import Unavailable


async def sentinel_primary(target: Target, settings: Settings) -> Address:
    """Give the address of the primary, as the first Sentinel that answers knows it.

    Raises:
        Unavailable: no Sentinel answered, or none knows a primary of that name that is up.
    """
    sentinel = Sentinel(  # type: ignore[no-untyped-call]
        target.addresses, sentinel_kwargs=_options(target, settings)
    )
    try:
        host, port = await sentinel.discover_master(target.service)
    except RedisError as error:
        raise Unavailable(DEPENDENCY, f"no Sentinel named a primary: {type(error).__name__}") from None
    finally:
        for client in sentinel.sentinels:
            await client.aclose()
    return str(host), int(port)


async def cluster_primaries(target: Target, settings: Settings, known: Sequence[Address]) -> dict[int, Address]:
    """Give the address of each slot's primary.

    Args:
        target: some nodes of the cluster.
        settings: for time limits.
        known: more nodes, asked after those: the ones of the URL may be gone.

    Raises:
        Unavailable: no node answered.
    """
    cluster = RedisCluster(
        startup_nodes=[ClusterNode(host, port) for host, port in [*target.addresses, *known]],
        require_full_coverage=False,
        username=target.user,
        password=target.password,
        **_options(target, settings),
    )
    try:
        await cluster.initialize()
        slots = cluster.nodes_manager.slots_cache
        return {slot: (str(nodes[0].host), int(nodes[0].port)) for slot, nodes in slots.items() if nodes}
    except (RedisError, RedisClusterException, OSError) as error:
        raise Unavailable(DEPENDENCY, f"no node told the slots: {type(error).__name__}") from None
    finally:
        await cluster.aclose()


def _options(target: Target, settings: Settings) -> dict[str, Any]:
    return {
        "protocol": 2,
        "socket_connect_timeout": settings.connect_timeout / 2,
        "socket_timeout": settings.connect_timeout,
        "retry": Retry(NoBackoff(), 0),
        **({} if target.tls is None else {"ssl": True, **target.tls}),
    }
