"""Simulated operators: they read and move events through the HTTP API, as people at a screen do."""

import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from http.client import HTTPConnection
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

MOVES: Final = ("open", "scheduled", "under_watch", "closed")


class Answer(NamedTuple):
    """Status and body of an answer."""

    status: int
    body: dict[str, Any]


class Latency(NamedTuple):
    """How long reads took, in milliseconds."""

    reads: int
    p50_ms: float
    p99_ms: float


class Api:
    """One connection to the API, for one thread."""

    def __init__(self, port: int) -> None:
        """Connect to a port of this machine at the first call."""
        self._connection = HTTPConnection("127.0.0.1", port, timeout=30)

    def get(self, path: str, **query: object) -> Answer:
        """Read."""
        return self._ask("GET", path + (f"?{urlencode(query)}" if query else ""))

    def move(self, event_id: str, to: str, key: str) -> Answer:
        """Move an event."""
        body = json.dumps({"to": to, "reason": "seen by an operator"})
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        return self._ask("POST", f"/v1/events/{quote(event_id, safe='')}/transitions", body, headers)

    def every(self, path: str = "/v1/events", **query: object) -> Iterator[dict[str, Any]]:
        """Follow a list page by page to its end."""
        while True:
            page = self.get(path, limit=500, **query)
            if page.status != 200:  # noqa: PLR2004 - HTTP
                raise ConnectionError(f"the list answered {page.status}")
            yield from page.body["items"]
            if page.body["next_cursor"] is None:
                return
            query["cursor"] = page.body["next_cursor"]

    def _ask(self, method: str, target: str, body: str | None = None, headers: dict[str, str] | None = None) -> Answer:
        self._connection.request(method, target, body, headers or {})
        answer = self._connection.getresponse()
        return Answer(answer.status, json.loads(answer.read() or b"{}"))


def read_until(port: int, event_ids: Sequence[str], stop: threading.Event, *, at_least: int) -> Latency:
    """Read single events one after the other, until told to stop and enough were read."""
    api = Api(port)
    taken: list[float] = []
    while len(taken) < at_least or not stop.is_set():
        path = f"/v1/events/{quote(event_ids[len(taken) % len(event_ids)], safe='')}"
        start = time.perf_counter()
        answer = api.get(path)
        taken.append((time.perf_counter() - start) * 1000)
        if answer.status != 200:  # noqa: PLR2004 - HTTP
            raise ConnectionError(f"reading an event answered {answer.status}")
        stop.wait(0.002)
    cuts = statistics.quantiles(taken, n=100)
    return Latency(len(taken), round(cuts[49], 2), round(cuts[98], 2))


def steps_of(event_id: str) -> int:
    """Say how far an event is moved, 0 to 4: the same in every run."""
    return sha256(event_id.encode()).digest()[0] % 5


def work(port: int, event_ids: Sequence[str], tell: Callable[[int], None], *, threads: int = 4) -> dict[str, int]:
    """Move events along their lifecycle, with the slips that people make.

    Every seventh event's first move is sent twice under one key, and every eleventh event is first asked to skip
    states. Each answer is held against the contract.

    Returns:
        How many answers were `moved`, `repeated` (the same transition again), `refused`, or `unexpected`.
    """
    local = threading.local()

    def one(number: int, event_id: str) -> list[str]:
        if not hasattr(local, "api"):
            local.api = Api(port)
        api: Api = local.api
        seen: list[str] = []
        if number % 11 == 0:
            answer = api.move(event_id, "closed", f"{event_id}-skip")
            seen.append("refused" if answer.status == 409 and answer.body["legal_moves"] == ["open"] else "unexpected")  # noqa: PLR2004 - HTTP
        for to in MOVES[: steps_of(event_id)]:
            answer = api.move(event_id, to, f"{event_id}-{to}")
            seen.append("moved" if answer.status == 201 and answer.body["to"] == to else "unexpected")  # noqa: PLR2004 - HTTP
            if number % 7 == 0 and to == MOVES[0]:
                again = api.move(event_id, to, f"{event_id}-{to}")
                seen.append("repeated" if again == (200, answer.body) else "unexpected")
        return seen

    counts: dict[str, int] = {"moved": 0, "repeated": 0, "refused": 0, "unexpected": 0}
    with ThreadPoolExecutor(threads) as pool:
        for done, seen in enumerate(pool.map(one, range(len(event_ids)), event_ids), start=1):
            for outcome in seen:
                counts[outcome] += 1
            tell(done)
    return counts
