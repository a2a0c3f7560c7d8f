"""The demo's account: report runs with personal data planted in them, recorded as EventBridge would hand them over.

The flights are there too, under the account of the machine: its history is counted twice, whole and by type.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, JsonValue

from adapters.memory.metrics import MemoryMetrics
from application.activity import record
from domain.eventbridge import from_eventbridge
from entrypoints.demo.operators import Api
from entrypoints.local_bus import LOCAL_ACCOUNT
from entrypoints.settings import Settings
from entrypoints.wiring import open_activity

ACCOUNT: Final = "acme"
REPORTS: Final = ("ReportRunStartedEvent", "ReportRunCompletedEvent", "ReportRunFailedEvent", "ExportDeliveredEvent")
RUNS: Final = 60
PLANTED: Final = ("grace.hopper@example.com", "+44 20 7946 0958", "4111 1111 1111 1111", "hunter2", "tok_9f8e7d6c5b4a")
"""What no reader may see."""


class History(BaseModel):
    """What the API told of an account.

    Attributes:
        events: how many there are, read without a filter.
        by_type: how many of each type, read with that filter.
        example: one of them, as everybody sees it.
    """

    model_config = ConfigDict(frozen=True)

    account: str
    events: int
    by_type: dict[str, int]
    example: dict[str, JsonValue]


async def record_reports(settings: Settings) -> dict[str, int]:
    """Record the report runs, each of them twice, and count what became of them."""
    engine = open_activity(settings, MemoryMetrics())
    try:
        events = [from_eventbridge(event) for event in report_events()]
        return dict(Counter([str(answer) for answer in await record(engine.feed, [*events, *events])]))
    finally:
        await engine.aclose()


def report_events() -> Iterator[Mapping[str, JsonValue]]:
    """Give the report runs as EventBridge events."""
    email, phone, card, password, token = PLANTED
    for run in range(RUNS):
        for step, kind in enumerate(REPORTS):
            yield {
                "version": "0",
                "id": f"00000000-0000-4000-8000-{run * len(REPORTS) + step:012}",
                "detail-type": kind,
                "source": "reports",
                "account": LOCAL_ACCOUNT,
                "time": f"2013-01-{run % 28 + 1:02}T{step:02}:{run:02}:00Z",
                "region": "local",
                "resources": [],
                "detail": {
                    "account_id": ACCOUNT,
                    "report_id": f"R{run % 5}",
                    "rows": run * 100,
                    "recipients": [{"email": email, "note": f"call {phone} first"}],
                    "request": json.dumps({"headers": [{"key": "Authorization", "value": f"Bearer {token}"}]}),
                    "billing": {"password": password, "memo": f"card {card}"},
                },
            }


def read_history(port: int, account: str, tell: Callable[[int], None]) -> tuple[History, str]:
    """Read an account's history over the API: whole, oldest first, then once for each of its types, newest first.

    Returns:
        What it told, and all of its text.
    """
    api = Api(port)
    whole: list[dict[str, Any]] = []
    for item in api.every("/v1/activity", account=account, order="asc"):
        whole.append(item)
        tell(len(whole))
    types = Counter(str(item["type"]) for item in whole)
    by_type = {kind: sum(1 for _ in api.every("/v1/activity", account=account, type=kind)) for kind in sorted(types)}
    return History(account=account, events=len(whole), by_type=by_type, example=whole[-1]), json.dumps(whole)


def checks(history: History, text: str, *, recorded: int) -> dict[str, bool]:
    """Say whether what the API told of an account adds up."""
    return {
        f"activity of {history.account}: each event is there once": history.events == recorded,
        f"activity of {history.account}: the counts by type add up to the whole": sum(history.by_type.values())
        == history.events,
        f"activity of {history.account}: nothing planted is shown": not any(secret in text for secret in PLANTED),
    }
