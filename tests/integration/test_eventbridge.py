"""What the event bus makes of EventBridge's answers (FC-21), and the queue that a rule feeds."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import pytest

from adapters.eventbridge.event_bus import EventBridgeBus
from adapters.eventbridge.resources import create_event_queue
from domain.errors import Invalid, Misconfigured, Unavailable
from domain.retry import RetryRule
from tests.aws_faults import answering, refusal
from tests.engines import BusAndQueue, Engine, event_queue
from tests.examples import START, an_envelope

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def made(ministack: Engine) -> Iterator[BusAndQueue]:
    with event_queue(ministack) as made:
        yield made


@pytest.fixture
def bus(ministack: Engine, made: BusAndQueue) -> EventBridgeBus:
    return EventBridgeBus(ministack.aws, made.bus, retry=RetryRule(attempts=3, base=0))


@pytest.fixture
def client(ministack: Engine) -> Any:
    return ministack.aws.events.client()


def answer(*codes: str) -> dict[str, Any]:
    """Answer 200, with some entries refused."""
    entries = [{"ErrorCode": code, "ErrorMessage": "secret"} if code else {"EventId": "1"} for code in codes]
    return {"FailedEntryCount": sum(map(bool, codes)), "Entries": entries}


def sent(requests: list[Any]) -> list[list[str]]:
    """Give the ids of the events in each request."""
    return [
        [json.loads(entry["Detail"])["cloudevents"]["id"] for entry in json.loads(request["body"])["Entries"]]
        for request in requests
    ]


async def test_fc21_entries_that_were_refused_for_a_moment_are_sent_again_alone(
    bus: EventBridgeBus, client: Any
) -> None:
    events = [an_envelope(f"e{number}") for number in range(10)]
    codes = ["ThrottlingException" if number in (4, 7) else "" for number in range(10)]
    again = answer("", "InternalFailure")
    with answering(client, "PutEvents", [answer(*codes), again, answer("")]) as seen:
        assert await bus.publish(events) == [None] * 10
    assert sent(seen) == [[f"e{number}" for number in range(10)], ["e4", "e7"], ["e7"]]


async def test_fc21_the_senders_fault_is_told_and_not_tried_again(bus: EventBridgeBus, client: Any) -> None:
    """Three entries: the second is not JSON for EventBridge, the third's type is too long for it."""
    events = [an_envelope("e1"), an_envelope("e2"), an_envelope("e3")]
    with answering(client, "PutEvents", [answer("", "MalformedDetail", "InvalidArgument")]) as seen:
        first, second, third = await bus.publish(events)
    assert len(seen) == 1
    assert first is None
    assert isinstance(second, Invalid)
    assert isinstance(third, Invalid)
    assert "MalformedDetail" in str(second)
    assert "secret" not in f"{second}{third}"


async def test_fc21_one_may_be_the_senders_fault_and_another_not(bus: EventBridgeBus, client: Any) -> None:
    events = [an_envelope("e1"), an_envelope("e2"), an_envelope("e3")]
    first = answer("InvalidArgument", "ThrottlingException", "NotAuthorizedForSourceException")
    with answering(client, "PutEvents", [first, answer("ThrottlingException"), answer("ThrottlingException")]) as seen:
        answers = await bus.publish(events)
    assert [type(one).__mro__[0] for one in (answers[0], answers[2])] == [Invalid, Misconfigured]
    assert isinstance(answers[1], Unavailable)
    assert sent(seen) == [["e1", "e2", "e3"], ["e2"], ["e2"]], "bounded, and the others are left alone"


async def test_a_request_that_fails_as_a_whole_is_not_sent_again_by_us(bus: EventBridgeBus, client: Any) -> None:
    events = [an_envelope(f"e{number}") for number in range(12)]
    with answering(client, "PutEvents", [refusal("AccessDeniedException")] * 2) as seen:
        answers = await bus.publish(events)
    assert len(seen) == 2
    assert all(isinstance(one, Misconfigured) for one in answers)


async def test_an_answer_with_entries_missing_is_no_answer(bus: EventBridgeBus, client: Any) -> None:
    with answering(client, "PutEvents", [answer("")]) as seen:
        answers = await bus.publish([an_envelope("e1"), an_envelope("e2")])
    assert len(seen) == 1
    assert all(isinstance(one, Unavailable) for one in answers)


async def test_the_time_of_an_event_is_sent_with_it(bus: EventBridgeBus, made: BusAndQueue, client: Any) -> None:
    time = START - timedelta(days=400)
    with answering(client, "PutEvents", [answer("")]) as seen:
        await bus.publish([an_envelope("e1", time=time.isoformat())])
    (entry,) = json.loads(seen[0]["body"])["Entries"]
    assert entry["Time"] == time.timestamp()
    assert entry["EventBusName"] == made.bus


def test_fc20_the_queue_of_a_rule_may_be_made_again_and_has_both_nets(ministack: Engine) -> None:
    """What the rule cannot deliver and what the worker fails on end in one dead-letter queue."""
    events, sqs = ministack.aws.events.client(), ministack.aws.sqs.client()
    first = create_event_queue(events, sqs, "again", "default")
    assert create_event_queue(events, sqs, "again", "default") == first
    (target,) = cast("list[Any]", events.list_targets_by_rule(Rule="again")["Targets"])
    attributes = sqs.get_queue_attributes(QueueUrl=first.queue_url, AttributeNames=["All"])["Attributes"]
    redrive = json.loads(attributes["RedrivePolicy"])
    assert target["DeadLetterConfig"]["Arn"] == redrive["deadLetterTargetArn"]
    assert redrive["deadLetterTargetArn"].endswith("again-dead")
    for url in (first.queue_url, first.dead_letter_url):
        policy = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
        (statement,) = json.loads(policy)["Statement"]
        assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": first.rule_arn}}
    with pytest.raises(Misconfigured, match="other attributes"):
        create_event_queue(events, sqs, "again", "default", visibility_seconds=90)
    with pytest.raises(Misconfigured):
        create_event_queue(events, sqs, "nowhere", "no-such-bus")
