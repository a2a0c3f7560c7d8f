"""The service `interlock.settings.v1.SkipList` (CONTRACTS § 3): bulk edits of what the router leaves out (R-307)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from adapters.grpc.gen.interlock.settings.v1 import skip_list_pb2 as pb
from application.skip_list import add_reports, list_reports, remove_reports
from domain.errors import Unavailable
from domain.skip_list import SkipEntry
from entrypoints.grpc.calls import Method, Service
from ports.clock import Clock
from ports.skip_list_store import SkipListStore

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds that an answer may take where the caller sets no limit."""


class SkipListService:
    """The three calls.

    Args:
        store: gives where the list is kept; asked by every call, so that a server that nobody asks opens nothing.
        clock: says when an entry was added.
    """

    def __init__(self, store: Callable[[], SkipListStore], clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @property
    def service(self) -> Service:
        """The methods by name. Edits need the scope `operate`, reading needs `view`."""
        return Service(
            pb.DESCRIPTOR.services_by_name["SkipList"],
            {
                "AddReports": Method(self.add_reports, "operate"),
                "RemoveReports": Method(self.remove_reports, "operate"),
                "ListReports": Method(self.list_reports, "view"),
            },
        )

    async def add_reports(self, request: pb.AddReportsRequest, seconds: float | None) -> pb.AddReportsResponse:
        """List reports."""
        asked = add_reports(self._store(), self._clock, request.event_type, list(request.report_ids), request.reason)
        edited = await _within(seconds, asked)
        return pb.AddReportsResponse(added=edited.done, already_listed=edited.unchanged)

    async def remove_reports(self, request: pb.RemoveReportsRequest, seconds: float | None) -> pb.RemoveReportsResponse:
        """Take reports off the list."""
        asked = remove_reports(self._store(), request.event_type, list(request.report_ids))
        edited = await _within(seconds, asked)
        return pb.RemoveReportsResponse(removed=edited.done, not_listed=edited.unchanged)

    async def list_reports(self, request: pb.ListReportsRequest, seconds: float | None) -> pb.ListReportsResponse:
        """Give a page of the list."""
        asked = list_reports(self._store(), request.event_type, request.page_size, request.page_token)
        page = await _within(seconds, asked)
        return pb.ListReportsResponse(
            reports=[_report(entry) for entry in page.entries], next_page_token=page.next_page_token
        )


async def _within(seconds: float | None, asked: Coroutine[Any, Any, T]) -> T:
    """Wait for an answer as long as the caller does, or a minute.

    Raises:
        Unavailable: there is none by then; an edit may have taken place, in part or whole.
    """
    try:
        async with asyncio.timeout(PATIENCE if seconds is None else seconds):
            return await asked
    except TimeoutError:
        raise Unavailable("the skip list", "no answer in time; repeat the call") from None


def _report(entry: SkipEntry) -> pb.Report:
    added_at = Timestamp()
    added_at.FromDatetime(entry.added_at)
    return pb.Report(
        report_id=entry.key.report_id, event_type=entry.key.event_type, reason=entry.reason, added_at=added_at
    )
