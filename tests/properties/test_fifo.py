"""FIFO groups: the pure rules, and several competing consumers on one strict queue (R-106, R-107, FC-48)."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from application.consume import BatchReport, apply_batch
from application.ingest import ingest
from domain.envelope import framed_digest
from domain.event import Head
from domain.fifo import lanes, message_group_id, to_return
from domain.lifecycle import Transition
from domain.messages import Received, TransitionRequested, requested_message
from domain.times import format_time
from tests.examples import START, STATES, an_envelope
from tests.platforms import WatchedStore, a_machine

T = TypeVar("T")

SQS_ID = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}")
whole = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
# The last kind is text that looks like what the rule makes of other text.
entities = whole | st.text('abé "[],\\:#~', max_size=6) | whole.map(message_group_id)


class Place(NamedTuple):
    message_id: str
    group_id: str | None


batches = st.lists(st.sampled_from(["A", "B", "C", None]), max_size=12).map(
    lambda groups: [Place(f"m{index}", group) for index, group in enumerate(groups)]
)


@settings(deadline=None, max_examples=300)
@given(batches, st.sets(st.integers(0, 11)), st.sets(st.integers(0, 11)))
def test_r107_what_goes_back_is_each_group_from_its_first_failure_on(
    batch: list[Place], failing: set[int], last: set[int]
) -> None:
    failed = {f"m{index}" for index in failing}
    spent = {f"m{index}" for index in last}
    returned = to_return(batch, failed, spent)
    assert returned == [place.message_id for place in batch if place.message_id in returned]
    for lane in lanes(batch):
        ids = [place.message_id for place in lane]
        blocking = [index for index, name in enumerate(ids) if name in failed - spent]
        first = blocking[0] if blocking else len(ids)
        assert [name for name in ids if name in returned] == [
            name for index, name in enumerate(ids) if index >= first or name in failed
        ]
    assert to_return(batch, failed) == to_return(batch, failed, spent - failed)


@settings(deadline=None, max_examples=300)
@given(batches)
def test_r107_lanes_hold_every_message_once_in_order(batch: list[Place]) -> None:
    split = lanes(batch)
    assert sorted(place.message_id for lane in split for place in lane) == sorted(place.message_id for place in batch)
    for lane in split:
        assert len({place.group_id for place in lane}) == 1
        assert lane == [place for place in batch if place in lane]
        assert len(lane) == 1 or lane[0].group_id is not None


@settings(deadline=None, max_examples=500)
@given(entities, entities)
@example("sha256:" + "0" * 64, "x" * 129)
@example("", " ")
@example("a\n", "a")
def test_r106_group_ids_fit_sqs_and_never_collide(one: str, other: str) -> None:
    for entity in (one, other):
        assert SQS_ID.fullmatch(message_group_id(entity))
    assert (message_group_id(one) == message_group_id(other)) == (one == other)
    assert message_group_id(message_group_id(one)) != message_group_id(one) or one == message_group_id(one)


@settings(deadline=None, max_examples=500)
@given(st.lists(entities, max_size=4), st.lists(entities, max_size=4))
@example(["a", "b"], ['a","b'])
@example(["a\\", "b"], ["a", "\\b"])
def test_r106_deduplication_ids_fit_sqs_and_never_collide(one: list[str], other: list[str]) -> None:
    assert re.fullmatch("[0-9a-f]{64}", framed_digest(*one))
    assert (framed_digest(*one) == framed_digest(*other)) == (one == other)


class LoggingStore(WatchedStore):
    """A store that keeps the order in which facts came, over all events."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Transition] = []

    async def append(self, head: Head, facts: Sequence[Transition], /) -> None:
        await super().append(head, facts)
        self.log += facts


class Held(NamedTuple):
    """A batch in the hands of a consumer."""

    batch: list[Received]
    until: datetime


ENTITIES = ("A", "B", "C")
VISIBILITY = 30


class Consumers(RuleBasedStateMachine):
    """Three consumers, a strict queue, failures, crashes, and time that runs out.

    Each entity has events, and each event has moves that are legal only in the order in which they were requested. So
    a message that is lost, overtaken or applied twice shows in a history.
    """

    @initialize(max_receives=st.integers(1, 4))
    def start(self, max_receives: int) -> None:
        self.runner = asyncio.Runner()
        self.store = LoggingStore()
        self.machine = a_machine(self.store, max_receives=max_receives)
        self.held: list[Held | None] = [None, None, None]
        self.entity_of: dict[str, str] = {}
        self.asked: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.failed_last: set[str] = set()

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            try:
                self.finish()
            finally:
                self.runner.close()

    def run(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return self.runner.run(awaited())

    @rule(entity=st.sampled_from(ENTITIES))
    def ingest(self, entity: str) -> None:
        event_id = f"e{len(self.entity_of)}"
        self.entity_of[event_id] = entity
        self.asked[event_id] = 0
        self.sent[f"{event_id} 0"] = len(self.sent)
        self.run(ingest(self.machine.platform, [an_envelope(event_id, entity=entity)]))

    @precondition(lambda self: any(number < 4 for number in self.asked.values()))
    @rule(data=st.data())
    def request_the_next_move(self, data: st.DataObject) -> None:
        event_id = data.draw(st.sampled_from([name for name, number in self.asked.items() if number < 4]))
        self.asked[event_id] += 1
        number = self.asked[event_id]
        self.sent[f"{event_id} {number}"] = len(self.sent)
        request = TransitionRequested(
            event_id=event_id,
            entity=self.entity_of[event_id],
            to=STATES[number],
            actor="ada",
            command_id=f"{event_id} {number}",
            requested_at=format_time(START),
        )
        self.run(self.machine.platform.publisher.publish([requested_message(request)]))

    @rule(consumer=st.integers(0, 2), limit=st.integers(1, 10))
    def receive(self, consumer: int, limit: int) -> None:
        """A consumer that receives again has crashed with what it held."""
        batch = self.run(self.machine.queue.receive(limit, 0))
        self.held[consumer] = Held(batch, self.machine.clock.now() + timedelta(seconds=VISIBILITY))
        places: dict[str, list[int]] = defaultdict(list)
        for message in batch:
            places[message.group_id or ""].append(self.sent[name_of(message)])
        assert all(order == sorted(order) for order in places.values())

    @precondition(lambda self: any(held and held.batch for held in self.held))
    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from([index for index, held in enumerate(self.held) if held and held.batch]))
        down = data.draw(st.sets(st.sampled_from(sorted(self.entity_of)), max_size=2))
        self.apply(consumer, down, keeps_deadline=data.draw(st.booleans()))

    @rule(seconds=st.sampled_from([1, 10, VISIBILITY - 0.001, VISIBILITY, 400]))
    def let_time_pass(self, seconds: float) -> None:
        self.machine.clock.advance(seconds)

    def apply(self, consumer: int, down: set[str], *, keeps_deadline: bool) -> None:
        """Do what a worker does, and hold the report against the batch and the failures."""
        held = self.held[consumer]
        assert held is not None
        batch, until = held
        in_time = self.machine.clock.now() < until or not keeps_deadline
        self.store.down = down
        report = self.run(
            apply_batch(
                self.machine.platform,
                batch,
                max_receives=self.machine.max_receives,
                deadline=until if keeps_deadline else None,
            )
        )
        self.store.down = set()
        assert report.received == len(batch) == sum(report.tally.values()) + len(report.returned)
        self.judge(batch, report, down if in_time else None)
        returned = [message for message in batch if message.message_id in report.returned]
        done = [message for message in batch if message not in returned]
        stale = self.run(self.machine.queue.delete(done))
        assert stale == ([] if self.machine.clock.now() < until else done)
        self.run(self.machine.queue.release(returned))
        self.held[consumer] = None

    def judge(self, batch: list[Received], report: BatchReport, down: set[str] | None) -> None:
        """R-107: groups without a failure carry on; without time left nothing is touched.

        FC-48: only a message that itself failed becomes a dead letter while consumers live, and that is noted.
        """
        if down is None:
            assert list(report.returned) == [message.message_id for message in batch]
            assert not report.failures
            return
        for lane in lanes(batch):
            if not any(name_of(message).split()[0] in down for message in lane):
                assert not any(message.message_id in report.returned for message in lane)
        for message in batch:
            if message.message_id in report.returned and message.receive_count >= self.machine.max_receives:
                assert message.message_id in report.failures
                assert name_of(message) in self.noted()
                self.failed_last.add(name_of(message))

    def noted(self) -> set[str]:
        return {
            f"{event_id} {STATES.index(miss.to)}"
            for event_id, all_ in self.store._missed.items()
            for miss in all_.values()
        }

    def buried(self) -> set[str]:
        letters = [message for group in self.machine.dead_letters._groups.values() for message in group]
        return {name_of_body(letter.body) for letter in letters}

    @invariant()
    def r107_facts_of_an_entity_come_in_the_order_of_publishing(self) -> None:
        """A dead letter may still be finished late by a consumer that had it before; all others keep the order."""
        if not hasattr(self, "runner"):
            return
        buried = self.buried() | self.failed_last
        for entity in ENTITIES:
            order = [
                self.sent[name]
                for fact in self.store.log
                if fact.entity == entity and (name := f"{fact.event_id} {fact.sequence - 1}") not in buried
            ]
            assert order == sorted(set(order))

    def finish(self) -> None:
        """With time and no failures, all that was sent is applied, refused or a dead letter: nothing is lost."""
        self.machine.clock.advance(VISIBILITY)
        self.held = [None, None, None]
        for _ in range(10 * (len(self.sent) + 1)):
            self.receive(0, 10)
            held = self.held[0]
            if held is None or not held.batch:
                break
            self.apply(0, set(), keeps_deadline=True)
        assert len(self.machine.queue) == 0
        buried, noted = self.buried(), self.noted()
        assert self.failed_last <= noted
        applied = {f"{fact.event_id} {STATES.index(fact.to_state)}" for fact in self.store.log}
        assert len(applied) == len(self.store.log)
        assert set(self.sent) == applied | buried | noted
        for event_id, number in self.asked.items():
            own = {f"{event_id} {index}" for index in range(number + 1)}
            if not own & (buried | self.failed_last):
                stream = self.run(self.store.stream(event_id))
                assert [fact.to_state for fact in stream.history] == list(STATES[: number + 1])
                assert stream.missed == ()


def name_of(message: Received) -> str:
    return name_of_body(message.body)


def name_of_body(body: str) -> str:
    """Name a message after its event and the number of its move: `e3 1`."""
    content: dict[str, Any] = json.loads(body)
    return f"{content['event']['id']} 0" if content["kind"] == "event_ingested" else str(content["command_id"])


TestConsumers = Consumers.TestCase
TestConsumers.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)
