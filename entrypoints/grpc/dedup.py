"""The service `interlock.dedup.v1.DedupCache` (CONTRACTS § 2): messages in, verdicts out.

Arguments are checked by `domain.dedup`, answers are given by `application.dedup`. There is no logging for each call:
what is told is told once a period (FC-09).
"""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from functools import lru_cache
from typing import Final

import structlog
from google.protobuf.duration_pb2 import Duration

from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb
from application import dedup
from application.dedup import DedupCache
from domain.dedup import MAX_VALUE_BYTES, Scope, check_keys, check_ttl, make_scope
from domain.errors import Invalid
from entrypoints.grpc.calls import Method, Service
from ports.metrics import Metrics

TOLD_SECONDS: Final = 30.0
"""Degraded answers are logged at most this often: the first at once, those after it when the period ends."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("interlock.dedup")

_scope = lru_cache(maxsize=4096)(make_scope)


class DedupService:
    """The eight calls."""

    def __init__(self, cache: DedupCache, metrics: Metrics, default_ttl: timedelta) -> None:
        """Answer from a cache.

        Args:
            cache: the targets.
            metrics: where hits, misses and degraded reads are counted, apart from each other.
            default_ttl: for requests without one.
        """
        self._cache = cache
        self._metrics = metrics
        self._default_ttl = default_ttl
        self._degraded = 0
        self._period: asyncio.TimerHandle | None = None

    @property
    def service(self) -> Service:
        """The methods by name. What a crawler calls needs `ingest`; figures need `view`, and forgetting `operate`."""
        return Service(
            pb.DESCRIPTOR.services_by_name["DedupCache"],
            {
                "CheckIfNew": Method(self.check_if_new, "ingest"),
                "CheckManyIfNew": Method(self.check_many_if_new, "ingest"),
                "CheckStream": Method(self.check_many_if_new, "ingest"),
                "Get": Method(self.get, "ingest"),
                "Set": Method(self.set, "ingest"),
                "Exists": Method(self.exists, "ingest"),
                "RunStats": Method(self.run_stats, "view"),
                "ForgetRun": Method(self.forget_run, "operate"),
            },
        )

    async def check_if_new(self, request: pb.CheckIfNewRequest, seconds: float | None) -> pb.CheckIfNewResponse:
        """Claim a key (R-201)."""
        scope = _scope(request.service_code, request.run_id)
        keys = (request.key,)
        check_keys(keys, "key")
        told = await dedup.check_if_new(self._cache, scope, keys, self._ttl(request), seconds)
        if told.degraded:
            self._tell_degraded()
        return pb.CheckIfNewResponse(is_new=told.is_new[0], degraded=told.degraded)

    def check_many_if_new(
        self, request: pb.CheckManyIfNewRequest, seconds: float | None
    ) -> Awaitable[pb.CheckManyIfNewResponse]:
        """Claim keys (R-209). Arguments are checked at once, and keys claimed when the answer is awaited."""
        scope = _scope(request.service_code, request.run_id)
        keys = list(request.keys)
        check_keys(keys)
        return self._claim(scope, keys, self._ttl(request), seconds)

    async def _claim(
        self, scope: Scope, keys: list[str], ttl: timedelta, seconds: float | None
    ) -> pb.CheckManyIfNewResponse:
        told = await dedup.check_if_new(self._cache, scope, keys, ttl, seconds)
        if told.degraded:
            self._tell_degraded()
        return pb.CheckManyIfNewResponse(is_new=told.is_new, degraded=told.degraded)

    async def get(self, request: pb.GetRequest, seconds: float | None) -> pb.GetResponse:
        """Look up a value (R-202)."""
        scope = _scope(request.service_code, request.run_id)
        check_keys((request.key,), "key")
        told = await dedup.get(self._cache, scope, request.key, seconds)
        self._count_read("get", found=told.value is not None, degraded=told.degraded)
        return pb.GetResponse(found=told.value is not None, value=told.value or b"", degraded=told.degraded)

    async def set(self, request: pb.SetRequest, seconds: float | None) -> pb.SetResponse:
        """Give a key a value (R-202)."""
        scope = _scope(request.service_code, request.run_id)
        check_keys((request.key,), "key")
        if len(request.value) > MAX_VALUE_BYTES:
            raise Invalid("value", f"must have at most {MAX_VALUE_BYTES} bytes")
        degraded = await dedup.put(self._cache, scope, request.key, request.value, self._ttl(request), seconds)
        if degraded:
            self._tell_degraded()
        return pb.SetResponse(degraded=degraded)

    async def exists(self, request: pb.ExistsRequest, seconds: float | None) -> pb.ExistsResponse:
        """Look whether a key is known (R-202)."""
        scope = _scope(request.service_code, request.run_id)
        keys = (request.key,)
        check_keys(keys, "key")
        told = await dedup.exist(self._cache, scope, keys, seconds)
        self._count_read("exists", found=told.exists[0], degraded=told.degraded)
        return pb.ExistsResponse(exists=told.exists[0], degraded=told.degraded)

    async def run_stats(self, request: pb.RunStatsRequest, seconds: float | None) -> pb.RunStatsResponse:
        """Count a run's keys (R-209)."""
        told = await dedup.count(self._cache, _scope(request.service_code, request.run_id), seconds)
        return pb.RunStatsResponse(keys=told.keys, degraded=told.degraded)

    async def forget_run(self, request: pb.ForgetRunRequest, seconds: float | None) -> pb.ForgetRunResponse:
        """Forget a run (R-209)."""
        forgotten = await dedup.forget(self._cache, _scope(request.service_code, request.run_id), seconds)
        return pb.ForgetRunResponse(forgotten=forgotten)

    def _ttl(self, request: pb.CheckIfNewRequest | pb.CheckManyIfNewRequest | pb.SetRequest) -> timedelta:
        return read_ttl(request.ttl, self._default_ttl) if request.HasField("ttl") else self._default_ttl

    def _count_read(self, call: str, *, found: bool, degraded: bool) -> None:
        outcome = "degraded" if degraded else "found" if found else "missing"
        self._metrics.count("dedup_reads_total", call=call, outcome=outcome)
        if degraded:
            self._tell_degraded()

    def _tell_degraded(self) -> None:
        self._degraded += 1
        if self._period is None:
            self._end_period()

    def _end_period(self) -> None:
        """Tell how many there were, and begin a period; where there were none, wait for the next one."""
        self._period = None
        if self._degraded:
            _log.warning("answers without a store", degraded_since_the_last_line=self._degraded)
            self._degraded = 0
            self._period = asyncio.get_running_loop().call_later(TOLD_SECONDS, self._end_period)


def read_ttl(ttl: Duration, default: timedelta) -> timedelta:
    """Read a life span; fractions of a microsecond are rounded up.

    Raises:
        Invalid: it is no Duration, zero, negative, or over 30 days.
    """
    if ttl.seconds * ttl.nanos < 0 or abs(ttl.nanos) > 999_999_999:  # noqa: PLR2004 - as duration.proto says
        raise Invalid("ttl", "must have nanos of the sign of seconds, below one second")
    try:
        return check_ttl(timedelta(seconds=ttl.seconds, microseconds=-(-ttl.nanos // 1000)), default)
    except OverflowError:
        raise Invalid("ttl", "must be over zero and at most 30 days") from None
