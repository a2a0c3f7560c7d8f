"""A drop-in `DUPEFILTER_CLASS` that shares what was seen between crawlers (docs/how-to/crawlers.md).

    DUPEFILTER_CLASS = "adapters.scrapy.dupefilter.InterlockDupeFilter"
    INTERLOCK_DEDUP_ADDRESS = "127.0.0.1:50051"
    INTERLOCK_DEDUP_SERVICE_CODE = "pricing"
    INTERLOCK_DEDUP_RUN_ID = "2026-01-01"

The key is Scrapy's own fingerprint of the request. It is claimed when the request is scheduled, before it is fetched
(FC-07). Scrapy asks its filter synchronously, so a question holds up the crawler as long as it takes: a fraction of a
millisecond, or the deadline where the service hangs. Then nobody is asked for a while. Whatever fails, the request is
fetched: only what this process has scheduled itself is still filtered, so that a crawl ends without the service too.
"""

import logging
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import grpc
from google.protobuf.duration_pb2 import Duration
from pydantic import SecretStr
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.settings import BaseSettings
from scrapy.statscollectors import StatsCollector

from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb
from adapters.grpc.pem import read_tls
from adapters.grpc.wire import ADDRESS, OPTIONS, credentials, failure, is_address, metadata, rpc
from domain.dedup import Scope, check_ttl, make_scope
from domain.errors import InterlockError, Invalid, Misconfigured, Retryable

PREFIX: Final = "INTERLOCK_DEDUP_"
MAX_DEADLINE: Final = 60
PAUSE_SECONDS: Final = 5.0
"""How long nobody is asked after the service failed."""

_log = logging.getLogger(__name__)


class InterlockDupeFilter(RFPDupeFilter):
    """Scrapy's filter, and behind it the service.

    Settings, each after INTERLOCK_DEDUP_: ADDRESS, SERVICE_CODE and RUN_ID; optionally TTL (seconds),
    DEADLINE (seconds, 1 by default), TOKEN, and for TLS the files CA_FILE, CERTIFICATE_FILE and KEY_FILE.

    A permanent mistake is told at the start: settings are checked, and the service is asked something harmless, which
    shows whether it takes the token. Outages, at the start too, leave requests unfiltered.

    Counts `interlock_dedup/new`, `…/seen` and `…/degraded` in the crawler's stats.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the filter of a crawler.

        Raises:
            Misconfigured: a setting is missing or cannot work, or the service refuses it.
        """
        made = super().from_crawler(crawler)
        made._connect(crawler.settings, crawler.stats)  # noqa: SLF001 - our own
        try:
            made._try_out()  # noqa: SLF001 - our own
        except BaseException:
            made.close("misconfigured")
            raise
        return made

    def request_seen(self, request: Request) -> bool:
        """Say whether a request was scheduled before, here or by another crawler of the run, and claim it."""
        return super().request_seen(request) or self._claimed_before(self._fingerprint(request).hex())

    def close(self, reason: str) -> None:
        """Let go of the connection."""
        super().close(reason)
        self._channel.close()

    def _connect(self, settings: BaseSettings, stats: StatsCollector | None) -> None:
        self._stats = stats
        self._scope = _scope(settings)
        self._deadline = _deadline(settings)
        self._ttl = _ttl(settings)
        token = settings.get(f"{PREFIX}TOKEN")
        self._metadata = metadata(SecretStr(str(token)) if token else None, f"{PREFIX}TOKEN")
        self._asked_again_at = 0.0
        address = _required(settings, "ADDRESS")
        if not is_address(address):
            raise Misconfigured(f"{PREFIX}ADDRESS", ADDRESS)
        ca, certificate, key = (_path(settings, name) for name in ("CA_FILE", "CERTIFICATE_FILE", "KEY_FILE"))
        tls = read_tls(ca, certificate, key, lambda name: PREFIX + name.upper())
        self._channel = (
            grpc.insecure_channel(address, options=OPTIONS)
            if tls is None
            else grpc.secure_channel(address, credentials(tls), options=OPTIONS)
        )
        method = rpc("CheckIfNew")
        self._check = self._channel.unary_unary(method.path, method.serialize, method.deserialize)

    def _try_out(self) -> None:
        """Ask for a key and claim nothing: what the service refuses now, it would refuse for the whole crawl."""
        method = rpc("Exists")
        ask = self._channel.unary_unary(method.path, method.serialize, method.deserialize)
        request = pb.ExistsRequest(service_code=self._scope.service_code, run_id=self._scope.run_id, key="start")
        try:
            ask(request, timeout=self._deadline, metadata=self._metadata)
        except grpc.RpcError as error:
            match failure(error):
                case Invalid(place=place, reason=reason):
                    raise Misconfigured(PREFIX + place.upper(), reason) from None
                case Misconfigured(reason=reason):
                    unknown = error.code() is grpc.StatusCode.UNIMPLEMENTED
                    raise Misconfigured(f"{PREFIX}{'ADDRESS' if unknown else 'TOKEN'}", reason) from None
                case outage:
                    _log.info("The filter was not tried out: %s", outage)  # the first request tells, if it lasts

    def _claimed_before(self, key: str) -> bool:
        now = time.monotonic()
        if now < self._asked_again_at:
            self._count("degraded")
            return False
        request = pb.CheckIfNewRequest(
            service_code=self._scope.service_code, run_id=self._scope.run_id, key=key, ttl=self._ttl
        )
        try:
            told: Any = self._check(request, timeout=self._deadline, metadata=self._metadata)
        except grpc.RpcError as error:
            self._pause(failure(error))
            self._count("degraded")
            return False
        if told.is_new and told.degraded:
            self._count("degraded")
        else:
            self._count("new" if told.is_new else "seen")
        return not told.is_new

    def _pause(self, error: InterlockError) -> None:
        level = logging.WARNING if isinstance(error, Retryable) else logging.ERROR
        _log.log(level, "Requests are fetched unfiltered for %s s: %s", PAUSE_SECONDS, error)
        self._asked_again_at = time.monotonic() + PAUSE_SECONDS

    def _count(self, outcome: str) -> None:
        if self._stats is not None:
            self._stats.inc_value(f"interlock_dedup/{outcome}")


def _scope(settings: BaseSettings) -> Scope:
    try:
        return make_scope(_required(settings, "SERVICE_CODE"), _required(settings, "RUN_ID"))
    except Invalid as error:
        raise Misconfigured(PREFIX + error.place.upper(), error.reason) from None


def _ttl(settings: BaseSettings) -> Duration | None:
    value = settings.get(f"{PREFIX}TTL")
    if value is None or value == "":
        return None
    try:
        seconds = int(value)
        check_ttl(timedelta(seconds=seconds))
    except (TypeError, ValueError, OverflowError, Invalid):
        raise Misconfigured(f"{PREFIX}TTL", "must be whole seconds, over zero and at most 30 days") from None
    return Duration(seconds=seconds)


def _deadline(settings: BaseSettings) -> float:
    try:
        seconds = float(settings.get(f"{PREFIX}DEADLINE", 1.0))
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds <= MAX_DEADLINE:
        raise Misconfigured(f"{PREFIX}DEADLINE", f"must be seconds, over zero and at most {MAX_DEADLINE}")
    return seconds


def _required(settings: BaseSettings, name: str) -> str:
    value = settings.get(PREFIX + name)
    if not value:
        raise Misconfigured(PREFIX + name, "is not set")
    return str(value)


def _path(settings: BaseSettings, name: str) -> Path | None:
    path = settings.get(PREFIX + name)
    return Path(path) if path else None
