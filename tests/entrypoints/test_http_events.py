"""What the calls of CONTRACTS § 4 do with good input."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import quote

import pytest

from adapters.memory.event_store import MemoryEventStore
from adapters.memory.publisher import MemoryPublisher
from domain.errors import Contention, InterlockError, TooLarge, Unavailable
from domain.event import Head, ListQuery, RecordedEvent, ingest_command_id
from domain.lifecycle import DEFAULT_LIFECYCLE, Transition
from domain.messages import Outgoing
from domain.retry import RetryRule
from tests.entrypoints.http_api import Api, an_api, check_problem, pointers
from tests.examples import START, an_envelope

pytestmark = pytest.mark.anyio

ITEM = ["event_id", "entity", "type", "source", "state", "since", "occurred_at", "sequence"]
TRANSITION = ["event_id", "entity", "from", "to", "at", "actor", "reason", "command_id", "sequence"]
NOW = "2026-01-01T12:00:00.000000Z"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api() as running:
        yield running


def event(event_id: str = "e1", **more: Any) -> dict[str, Any]:
    return {**an_envelope(event_id).attributes(), **more}


async def test_r105_one_event_is_taken_in(api: Api) -> None:
    for media_type in ("application/json", "application/cloudevents+json", "Application/JSON; charset=UTF-8"):
        response = await api.client.post(
            "/v1/events", content=json.dumps(event()), headers={"Content-Type": media_type}
        )
        assert (response.status_code, response.json()) == (202, {"accepted": ["e1"], "rejected": []})
    assert len(api.queue) == 1


@pytest.mark.parametrize("media_type", ["application/json", "application/cloudevents-batch+json"])
async def test_a_batch_is_answered_event_by_event(api: Api, media_type: str) -> None:
    """Accepted: two good ones and a copy. Rejected: each with its index and the rule that it breaks."""
    batch = [event("e1"), event("e2", subject=None), event("e3"), event("e1"), 5, event("e4", **{"x-y": 1})]
    response = await api.client.post(
        "/v1/events", content=" \n" + json.dumps(batch), headers={"Content-Type": media_type}
    )
    assert response.status_code == 202
    assert response.json()["accepted"] == ["e1", "e3", "e1"]
    assert [(one["index"], one["reason"].partition(":")[0]) for one in response.json()["rejected"]] == [
        (1, "subject"),
        (4, "an event must be a JSON object"),
        (5, '["x-y"]'),
    ]


async def test_an_event_too_large_is_rejected_alone(api: Api) -> None:
    """FC-33: with its size and the limit."""
    batch = [event("e1", data="x" * 262_144), event("e2")]
    response = await api.client.post("/v1/events", json=batch)
    assert response.json()["accepted"] == ["e2"]
    (rejected,) = response.json()["rejected"]
    assert rejected["index"] == 0
    assert "262144" in rejected["reason"]


async def test_a_large_batch_is_read_beside_other_requests(api: Api) -> None:
    batch = [event(f"e{number}", data="x" * 500) for number in range(1000)]
    response = await api.client.post("/v1/events", json=batch)
    assert len(response.json()["accepted"]) == 1000


async def test_an_event_is_shown_as_it_stands(api: Api) -> None:
    await api.client.post("/v1/events", json=event())
    shown = (await api.client.get("/v1/events/e1")).json()
    assert list(shown) == [*ITEM, "legal_moves"]
    assert (shown["state"], shown["since"], shown["sequence"], shown["legal_moves"]) == (None, None, 0, [])
    await api.settle()
    assert (await api.client.get("/v1/events/e1")).json() == {
        "event_id": "e1",
        "entity": "N14228",
        "type": "FlightDelayed",
        "source": "/flights/nyc",
        "state": "to_review",
        "since": NOW,
        "occurred_at": "2026-01-01T10:00:00.000000Z",
        "sequence": 1,
        "legal_moves": ["open"],
    }


async def test_r101_an_event_moves_along_its_lifecycle(api: Api) -> None:
    await api.ingest("e1")
    made = []
    for state in DEFAULT_LIFECYCLE.states[1:]:
        response = await api.client.post(
            "/v1/events/e1/transitions", json={"to": state, "reason": None, "expected_state": None}
        )
        assert response.status_code == 201
        made.append(response.json())
    history = (await api.client.get("/v1/events/e1/history")).json()
    assert list(history) == ["items", "missed"]
    assert history["items"][1:] == made
    assert all(list(fact) == TRANSITION for fact in history["items"])
    assert [(fact["from"], fact["to"]) for fact in history["items"]] == [
        (None, "to_review"),
        ("to_review", "open"),
        ("open", "scheduled"),
        ("scheduled", "under_watch"),
        ("under_watch", "closed"),
    ]
    assert [fact["actor"] for fact in history["items"]] == ["ingestion", "ada", "ada", "ada", "ada"]
    assert [fact["sequence"] for fact in history["items"]] == [1, 2, 3, 4, 5]
    assert len({fact["command_id"] for fact in history["items"]}) == 5


async def test_r101_an_illegal_move_is_a_conflict_that_names_the_legal_ones(api: Api) -> None:
    await api.ingest("e1")
    for body in ({"to": "closed"}, {"to": "open", "expected_state": "open"}):
        problem = check_problem(await api.client.post("/v1/events/e1/transitions", json=body), 409)
        assert (problem["current_state"], problem["legal_moves"]) == ("to_review", ["open"])


async def test_a_move_before_the_first_transition_is_a_conflict(api: Api) -> None:
    await api.client.post("/v1/events", json=event())
    problem = check_problem(await api.client.post("/v1/events/e1/transitions", json={"to": "open"}), 409)
    assert (problem["current_state"], problem["legal_moves"]) == (None, [])


async def test_missed_moves_are_told_beside_the_history(api: Api) -> None:
    """FC-48: the gap shows in history."""
    await api.ingest("e1")
    requested = {
        "kind": "transition_requested",
        "event_id": "e1",
        "entity": "N14228",
        "to": "closed",
        "actor": "bob",
        "reason": None,
        "command_id": "c9",
        "requested_at": NOW,
    }
    api.queue.put(Outgoing("N14228", "d9", json.dumps(requested)))
    await api.settle()
    (missed,) = (await api.client.get("/v1/events/e1/history")).json()["missed"]
    assert list(missed) == ["command_id", "to", "at", "reason"]
    assert (missed["command_id"], missed["to"], missed["at"]) == ("c9", "closed", NOW)
    assert "cannot move" in missed["reason"]


async def test_r110_a_repeated_key_gives_the_same_transition(api: Api) -> None:
    await api.ingest("e1")
    headers = {"Idempotency-Key": "my key/1"}
    first = await api.client.post("/v1/events/e1/transitions", json={"to": "open"}, headers=headers)
    await api.client.post("/v1/events/e1/transitions", json={"to": "scheduled"})
    again = await api.client.post("/v1/events/e1/transitions", json={"to": "open"}, headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["command_id"] == "my key/1"


async def test_a_key_reused_for_another_move_is_refused(api: Api) -> None:
    """As the IETF draft on the Idempotency-Key header has it: 422."""
    await api.ingest("e1")
    headers = {"Idempotency-Key": "k"}
    await api.client.post("/v1/events/e1/transitions", json={"to": "open"}, headers=headers)
    response = await api.client.post("/v1/events/e1/transitions", json={"to": "scheduled"}, headers=headers)
    problem = check_problem(response, 422)
    assert pointers(problem) == ["/Idempotency-Key"]
    assert (problem["current_state"], problem["legal_moves"]) == ("open", ["scheduled"])


@pytest.mark.parametrize("prefix", ["", ":", "::"])
async def test_no_key_meets_the_command_of_ingestion(api: Api, prefix: str) -> None:
    """A key that equals ingestion's command id is another command, and is shown as it was sent."""
    await api.ingest("e1")
    first = (await api.client.get("/v1/events/e1/history")).json()["items"][0]
    assert first["command_id"] == ingest_command_id(an_envelope("e1"))
    headers = {"Idempotency-Key": prefix + first["command_id"]}
    check_problem(await api.client.post("/v1/events/e1/transitions", json={"to": "to_review"}, headers=headers), 409)
    moved = await api.client.post("/v1/events/e1/transitions", json={"to": "open"}, headers=headers)
    assert (moved.status_code, moved.json()["command_id"]) == (201, headers["Idempotency-Key"])
    again = await api.client.post("/v1/events/e1/transitions", json={"to": "open"}, headers=headers)
    assert (again.status_code, again.json()) == (200, moved.json())


async def test_keys_that_look_alike_are_different_commands(api: Api) -> None:
    await api.ingest("e1")
    for state, key in zip(DEFAULT_LIFECYCLE.states[1:], ["a" * 64, ":" + "a" * 64, "::" + "a" * 64, ":"], strict=True):
        moved = await api.client.post("/v1/events/e1/transitions", json={"to": state}, headers={"Idempotency-Key": key})
        assert (moved.status_code, moved.json()["command_id"]) == (201, key)


async def test_the_longest_key_is_taken(api: Api) -> None:
    await api.ingest("e1")
    headers = {"Idempotency-Key": ":" * 255}
    moved = await api.client.post("/v1/events/e1/transitions", json={"to": "open"}, headers=headers)
    assert (moved.status_code, moved.json()["command_id"]) == (201, ":" * 255)


async def test_r104_of_crossing_moves_each_is_told_the_truth() -> None:
    """Sixteen at once, through a store that lets them all read before any writes."""
    async with an_api(store=Crossing(16), contention=RetryRule(20, 0, 0)) as crossed:
        await crossed.ingest("e1")
        post = crossed.client.post
        async with asyncio.TaskGroup() as tasks:
            sent = [tasks.create_task(post("/v1/events/e1/transitions", json={"to": "open"})) for _ in range(16)]
        responses = [task.result() for task in sent]
        assert sorted(response.status_code for response in responses) == [201] + [409] * 15
        history = (await crossed.client.get("/v1/events/e1/history")).json()["items"]
        (won,) = (response.json() for response in responses if response.status_code == 201)
        assert history[1:] == [won]
        assert {response.json()["current_state"] for response in responses if response.status_code == 409} == {"open"}


async def test_r110_of_crossing_repeats_one_makes_the_transition() -> None:
    async with an_api(store=Crossing(8), contention=RetryRule(20, 0, 0)) as crossed:
        await crossed.ingest("e1")
        headers = {"Idempotency-Key": "k"}
        post = crossed.client.post
        async with asyncio.TaskGroup() as tasks:
            sent = [
                tasks.create_task(post("/v1/events/e1/transitions", json={"to": "open"}, headers=headers))
                for _ in range(8)
            ]
        responses = [task.result() for task in sent]
        assert {response.status_code for response in responses} <= {200, 201}
        assert [response.json() for response in responses] == [responses[0].json()] * 8
        assert len((await crossed.client.get("/v1/events/e1/history")).json()["items"]) == 2


class Crossing(MemoryEventStore):
    """Lets `parties` moves read the same history before the first of them writes."""

    def __init__(self, parties: int) -> None:
        super().__init__()
        self._all_read = asyncio.Barrier(parties)
        self._crossed = False

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        if head.sequence > 1 and not self._crossed:
            await self._all_read.wait()
            self._crossed = True
        await super().append(head, facts)


async def test_r109_lists_by_state_and_entity_page_by_page(api: Api) -> None:
    await api.ingest(*(f"e{number}" for number in range(7)))
    await api.client.post("/v1/events/e3/transitions", json={"to": "open"})
    for order, expected in (
        ("asc", ["e0", "e1", "e2", "e4", "e5", "e6"]),
        ("desc", ["e6", "e5", "e4", "e2", "e1", "e0"]),
    ):
        found: list[str] = []
        parameters = {"state": "to_review", "entity": "N14228", "order": order, "limit": "2"}
        while True:
            page = (await api.client.get("/v1/events", params=parameters)).json()
            assert list(page) == ["items", "next_cursor"]
            assert all(list(item) == ITEM for item in page["items"])
            found += [item["event_id"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            parameters["cursor"] = page["next_cursor"]
        assert found == expected


async def test_both_ends_of_the_window_are_included(api: Api) -> None:
    for number in range(5):
        await api.client.post("/v1/events", json=event(f"e{number}", time=f"2026-01-01T10:00:0{number}.5Z"))
    await api.settle()
    for start, end in (("10:00:01.5Z", "10:00:03.5Z"), ("12:00:01.500000+02:00", "12:00:03.500000999+02:00")):
        window = {"from": f"2026-01-01T{start}", "to": f"2026-01-01T{end}"}
        page = (await api.client.get("/v1/events", params={"state": "to_review", **window})).json()
        assert [item["event_id"] for item in page["items"]] == ["e1", "e2", "e3"]


async def test_the_default_is_fifty_in_ascending_order(api: Api) -> None:
    batch = [event(f"e{number:03}") for number in range(51)]
    await api.client.post("/v1/events", json=batch)
    await api.settle()
    page = (await api.client.get("/v1/events?entity=N14228")).json()
    assert [item["event_id"] for item in page["items"]] == [f"e{number:03}" for number in range(50)]
    assert page["next_cursor"]


class Down(MemoryEventStore):
    """A store that does not answer, and says more about it than callers should read."""

    async def record(self, _: Sequence[RecordedEvent], /) -> list[RecordedEvent]:
        raise Unavailable("events", "10.0.0.7:8000 refused")

    async def head(self, _: str, /) -> Head | None:
        raise Unavailable("events", "10.0.0.7:8000 refused")

    async def list_heads(self, _: ListQuery, /) -> list[Head]:
        raise Contention("e1", 20)


async def test_a_store_that_is_down_means_try_again() -> None:
    async with an_api(store=Down()) as api:
        for response in (
            await api.client.post("/v1/events", json=event()),
            await api.client.post("/v1/events", json=[event(), {}]),
            await api.client.get("/v1/events/e1"),
            await api.client.get("/v1/events?state=open"),
        ):
            check_problem(response, 503)
            assert response.headers["retry-after"].isdecimal()
            assert "10.0.0.7" not in response.text


class Faulty(MemoryPublisher):
    """A topic that fails for some messages."""

    def __init__(self, *answers: InterlockError | None) -> None:
        super().__init__()
        self._answers = answers

    async def publish(self, messages: Sequence[Outgoing], /) -> list[InterlockError | None]:
        return list(self._answers[: len(messages)])


async def test_when_every_event_of_a_batch_may_be_sent_again_so_may_the_batch() -> None:
    down = Unavailable("topic", "secret.example refused")
    async with an_api(publisher=Faulty(down, down)) as api:
        check_problem(await api.client.post("/v1/events", json=event()), 503)
        check_problem(await api.client.post("/v1/events", json=[event("e1"), event("e2")]), 503)
    async with an_api(publisher=Faulty(None, down)) as api:
        response = await api.client.post("/v1/events", json=[event("e1"), event("e2")])
        assert response.status_code == 202
        assert response.json()["accepted"] == ["e1"]
        assert response.json()["rejected"] == [{"index": 1, "reason": "topic is unavailable; send the request again"}]
        assert "secret.example" not in response.text


async def test_a_topic_that_finds_an_event_too_large_is_told_to_the_caller() -> None:
    async with an_api(publisher=Faulty(TooLarge("", "is 10 bytes; the limit is 9", 10, 9))) as api:
        problem = check_problem(await api.client.post("/v1/events", json=event()), 413)
        assert (problem["size"], problem["limit"]) == (10, 9)


@pytest.mark.parametrize("event_id", ["a/b", "a%2Fb", "a/history", "history", "..", ".", "日本 😀", "?x#y", "a+b", "/"])
async def test_ids_may_hold_any_character(api: Api, event_id: str) -> None:
    await api.ingest(event_id)
    sent = "/v1/events/" + quote(event_id, safe="")
    if event_id.strip("."):
        assert (await api.client.get(sent)).json()["event_id"] == event_id
        assert (await api.client.post(sent + "/transitions", json={"to": "open"})).status_code == 201
        assert len((await api.client.get(sent + "/history")).json()["items"]) == 2


async def test_two_sources_with_one_id_are_two_events(api: Api) -> None:
    await api.client.post("/v1/events", json=event("e1"))
    response = await api.client.post("/v1/events", json=event("e1", source="/other"))
    (second,) = response.json()["accepted"]
    assert len(second) == 129
    await api.settle()
    assert (await api.client.get(f"/v1/events/{second}")).json()["source"] == "/other"


async def test_an_event_without_a_time_takes_that_of_its_arrival(api: Api) -> None:
    await api.client.post("/v1/events", json={k: v for k, v in event().items() if k != "time"})
    assert (await api.client.get("/v1/events/e1")).json()["occurred_at"] == NOW
    assert api.clock.now() == START


async def test_safety_headers_are_on_every_answer(api: Api) -> None:
    for path in ("/v1/events/none", "/nowhere", "/healthz", "/metrics", "/openapi.json", "/v1/events?limit=x"):
        headers = (await api.client.get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
    assert json.loads((await api.client.get("/openapi.json")).content)["openapi"].startswith("3.1")


async def test_health_needs_no_token(api: Api) -> None:
    del api.client.headers["Authorization"]
    assert (await api.client.get("/healthz")).json() == {"status": "ok"}
    assert (await api.client.get("/readyz")).json() == {"status": "ok", "dependencies": {}}
    figures = await api.client.get("/metrics")
    assert (figures.content, figures.headers["content-type"]) == (
        b"figures 1\n",
        "text/plain; version=0.0.4; charset=utf-8",
    )


async def test_readiness_names_what_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """All checks run side by side, and one that hangs is given up."""
    monkeypatch.setattr("entrypoints.http.health.CHECK_SECONDS", 0.05)

    async def well() -> None:
        return

    async def refused() -> None:
        raise Unavailable("queue", "10.0.0.7 refused")

    async def broken() -> None:
        raise ValueError("payload")

    async def hanging() -> None:
        await asyncio.Event().wait()

    checks = {"store": well, "queue": refused, "topic": broken, "tokens": hanging}
    async with an_api(readiness=checks) as api:
        response = await api.client.get("/readyz")
        problem = check_problem(response, 503)
        assert problem["dependencies"] == {"store": "ok", "queue": "failed", "topic": "failed", "tokens": "failed"}
        assert "10.0.0.7" not in response.text


async def test_requests_are_measured_by_route_and_status(api: Api) -> None:
    """A label has few values: paths and odd methods do not become labels."""
    await api.client.get("/v1/events/e1")
    await api.client.get("/v1/events/e2/history")
    await api.client.get("/nowhere/e3")
    await api.client.request("BREW", "/v1/events")
    measured = {labels for name, labels in api.metrics.measurements if name == "http_request_seconds"}
    assert {tuple(dict(labels).values()) for labels in measured} == {
        ("GET", "/v1/events/{event_id}", "404"),
        ("GET", "/v1/events/{event_id}/history", "404"),
        ("GET", "none", "404"),
        ("other", "/v1/events", "405"),
    }
