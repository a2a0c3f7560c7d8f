"""The call that reads an account's activity, redacted (CONTRACTS § 4; R-402 to R-404)."""

import re
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse

from application.activity_history import ActivityHistory
from domain.activity import ActivityQuery
from domain.errors import Invalid
from domain.event import DEFAULT_LIMIT
from domain.times import parse_time
from entrypoints.http.reading import identify, query_parameters
from ports.access import Access
from ports.clock import Clock

PARAMETERS: Final = ("account", "type", "report_id", "from", "to", "order", "limit", "cursor")

_LIMIT: Final = re.compile(r"[0-9]{1,4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ActivityCalls:
    """The handler: takes a request, gives its response, and raises errors of the tree."""

    history: ActivityHistory
    access: Access | None
    clock: Clock

    async def get_activity(self, request: Request) -> JSONResponse:
        """Give a page of an account's activity."""
        await identify(self.access, request, "view", self.clock.now())
        given = query_parameters(request, PARAMETERS)
        page = await self.history.page(activity_query(given), given.get("cursor"))
        return JSONResponse({"items": page.items, "next_cursor": page.next_cursor})


def activity_query(given: dict[str, str]) -> ActivityQuery:
    """Make the query that parameters ask for.

    Raises:
        Invalid: naming the parameter.
    """
    limit, order = given.get("limit", str(DEFAULT_LIMIT)), given.get("order", "desc")
    if "account" not in given:
        raise Invalid("account", "is required: activity is read an account at a time")
    if _LIMIT.fullmatch(limit) is None:
        raise Invalid("limit", "must be a whole number")
    if order not in {"asc", "desc"}:
        raise Invalid("order", "must be asc or desc")
    return ActivityQuery(
        account=given["account"],
        type=given.get("type"),
        report_id=given.get("report_id"),
        earliest=parse_time(given["from"], "from") if "from" in given else None,
        latest=parse_time(given["to"], "to") if "to" in given else None,
        descending=order == "desc",
        limit=int(limit),
    )
