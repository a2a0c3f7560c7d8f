"""The service `interlock.settings.v1.SkipList` (CONTRACTS § 3): bulk edits of what the router leaves out (R-307)."""

from collections.abc import Callable

from google.protobuf.timestamp_pb2 import Timestamp

from adapters.grpc.gen.interlock.settings.v1 import skip_list_pb2 as pb
from application.skip_list import add_reports, list_reports, remove_reports
from domain.skip_list import SkipEntry
from entrypoints.grpc.calls import Method, Service
from ports.clock import Clock
from ports.skip_list_store import SkipListStore


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

    async def add_reports(self, request: pb.AddReportsRequest, _seconds: float | None) -> pb.AddReportsResponse:
        """List reports."""
        edited = await add_reports(
            self._store(), self._clock, request.event_type, list(request.report_ids), request.reason
        )
        return pb.AddReportsResponse(added=edited.done, already_listed=edited.unchanged)

    async def remove_reports(
        self, request: pb.RemoveReportsRequest, _seconds: float | None
    ) -> pb.RemoveReportsResponse:
        """Take reports off the list."""
        edited = await remove_reports(self._store(), request.event_type, list(request.report_ids))
        return pb.RemoveReportsResponse(removed=edited.done, not_listed=edited.unchanged)

    async def list_reports(self, request: pb.ListReportsRequest, _seconds: float | None) -> pb.ListReportsResponse:
        """Give a page of the list."""
        page = await list_reports(self._store(), request.event_type, request.page_size, request.page_token)
        return pb.ListReportsResponse(
            reports=[_report(entry) for entry in page.entries], next_page_token=page.next_page_token
        )


def _report(entry: SkipEntry) -> pb.Report:
    added_at = Timestamp()
    added_at.FromDatetime(entry.added_at)
    return pb.Report(
        report_id=entry.key.report_id, event_type=entry.key.event_type, reason=entry.reason, added_at=added_at
    )
