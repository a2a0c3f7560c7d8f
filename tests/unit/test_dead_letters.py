"""Reading dead letters whichever way they came, choosing among them, and putting them back at a pace (R-503, FC-20)."""

import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.memory.clock import ManualClock
from application.dead_letters import Letter, find, redrive
from domain.dead_letters import Attribute, DeadLetter, Selection, read_failure, redrive_id
from domain.errors import InterlockError, Unavailable
from tests.examples import START

ARN = "arn:aws:lambda:us-east-1:123456789012:function:router"
EVENT = {
    "version": "0",
    "id": "7bf73129-1428-4cd3-a780-95db273d1602",
    "detail-type": "ReportRunCompletedEvent",
    "source": "reports",
    "account": "123456789012",
    "time": "2026-01-01T10:00:00Z",
    "region": "us-east-1",
    "resources": [],
    "detail": {"report_id": "R-1", "note": "salt & pepper 日本"},
}


def a_letter(body: object, **attributes: str) -> DeadLetter:
    text = body if isinstance(body, str) else json.dumps(body)
    return DeadLetter("m1", text, "r1", attributes={name: Attribute("String", v) for name, v in attributes.items()})


def of_eventbridge() -> DeadLetter:
    """Give a letter as EventBridge writes it when it cannot deliver."""
    return a_letter(
        EVENT,
        RULE_ARN="arn:aws:events:us-east-1:123456789012:rule/reports",
        TARGET_ARN=ARN,
        ERROR_CODE="NO_PERMISSIONS",
        ERROR_MESSAGE="The target may not be invoked",
        EXHAUSTED_RETRY_CONDITION="MaximumRetryAttempts",
        RETRY_ATTEMPTS="185",
    )


def of_destination() -> DeadLetter:
    """Give a letter as Lambda writes it to a failure destination."""
    return a_letter(
        {
            "version": "1.0",
            "timestamp": "2026-01-01T11:00:00.123Z",
            "requestContext": {
                "requestId": "e4b46cbf-b738-xmpl-8880-a18cdf61200e",
                "functionArn": f"{ARN}:$LATEST",
                "condition": "RetriesExhausted",
                "approximateInvokeCount": 3,
            },
            "requestPayload": EVENT,
            "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
            "responsePayload": {
                "errorMessage": "Temporal is unavailable: no answer",
                "errorType": "Unavailable",
                "stackTrace": ["…"],
            },
        }
    )


def test_fc20_a_letter_of_eventbridge_tells_event_target_and_reason() -> None:
    failure = read_failure(of_eventbridge())
    assert json.loads(failure.event) == EVENT
    assert failure[:1] + failure[2:] == (
        "eventbridge",
        "ReportRunCompletedEvent",
        EVENT["id"],
        "NO_PERMISSIONS",
        "The target may not be invoked",
        ARN,
        185,
        None,
    )


def test_fc20_a_letter_of_a_failure_destination_tells_the_event_inside_and_the_error() -> None:
    failure = read_failure(of_destination())
    assert json.loads(failure.event) == EVENT
    assert failure[:1] + failure[2:8] == (
        "lambda",
        "ReportRunCompletedEvent",
        EVENT["id"],
        "Unavailable",
        "Temporal is unavailable: no answer",
        f"{ARN}:$LATEST",
        3,
    )
    assert failure.failed_at == START - timedelta(minutes=59, seconds=59, milliseconds=877)


def test_fc20_a_destination_that_got_no_answer_tells_the_condition() -> None:
    record = json.loads(of_destination().body)
    record["requestContext"]["condition"] = "EventAgeExceeded"
    del record["responsePayload"], record["responseContext"]
    failure = read_failure(a_letter(record))
    assert (failure.code, failure.reason) == ("EventAgeExceeded", None)


def test_fc20_a_letter_of_lambdas_own_dead_letter_queue_tells_its_attributes() -> None:
    failure = read_failure(a_letter(EVENT, RequestID="e4b4", ErrorCode="200", ErrorMessage="no answer"))
    assert (failure.origin, failure.code, failure.reason, failure.event_id) == (
        "lambda",
        "200",
        "no answer",
        EVENT["id"],
    )


def test_fc20_an_event_that_looks_like_a_record_of_lambda_is_told_by_its_attributes() -> None:
    record = json.loads(of_destination().body)
    for attributes in ({"ERROR_CODE": "X", "TARGET_ARN": ARN}, {"RequestID": "e4b4", "ErrorCode": "200"}):
        letter = a_letter(record, **attributes)
        failure = read_failure(letter)
        assert failure.event == letter.body
        assert failure.target == attributes.get("TARGET_ARN")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"specversion": "1.0", "id": "e1", "source": "/s", "type": "FlightDelayed"}, ("FlightDelayed", "e1")),
        ({"kind": "event_ingested", "event": {"id": "e2", "type": "T"}}, ("T", "e2")),
        ({"kind": "transition_requested", "event_id": "e3", "to": "open"}, ("transition_requested", "e3")),
        ({"Type": "Notification", "Message": '{"kind":"event_ingested","event":{"id":"e4","type":"T"}}'}, ("T", "e4")),
        ([{"id": "e5", "type": "T"}], (None, None)),
        ({"id": 5, "type": ["T"], "requestPayload": 1}, (None, None)),
        ("{", (None, None)),
        ("", (None, None)),
        ('{"id":"a","id":"b"}', (None, None)),
        ("[" * 5000, (None, None)),
        ("\ud800", (None, None)),
        ("bm90IGpzb24=", (None, None)),
    ],
)
def test_what_a_queues_letter_holds_is_named_where_it_can_be_read_and_always_goes_back_as_it_is(
    body: object, named: tuple[str | None, str | None]
) -> None:
    letter = a_letter(body)
    failure = read_failure(letter)
    assert (failure.event_type, failure.event_id) == named
    assert (failure.origin, failure.event, failure.code) == ("queue", letter.body, None)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "requestContext",
                        "requestPayload",
                        "responsePayload",
                        "errorType",
                        "timestamp",
                        "kind",
                        "event",
                        "id",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_body_makes_reading_fail(value: object) -> None:
    read_failure(a_letter(value))


def test_the_reason_of_a_failure_is_cut() -> None:
    reason = read_failure(a_letter(EVENT, ERROR_CODE="X", ERROR_MESSAGE="x" * 5000)).reason
    assert reason is not None
    assert len(reason) == 300


@pytest.mark.parametrize(
    ("selection", "takes"),
    [
        (Selection(), True),
        (Selection(message_ids=frozenset({"m1", "m2"})), True),
        (Selection(message_ids=frozenset({"m2"})), False),
        (Selection(event_type="ReportRunCompletedEvent"), True),
        (Selection(event_type="reportRunCompletedEvent"), False),
        (Selection(contains='"R-1"'), True),
        (Selection(contains="r-1"), False),
        (Selection(error="UNAVAIL"), True),
        (Selection(error="no answer"), True),
        (Selection(error="throttled"), False),
        (Selection(earliest=START - timedelta(hours=1)), True),
        (Selection(earliest=START), False),
        (Selection(latest=START), True),
        (Selection(latest=START - timedelta(hours=1)), False),
        (Selection(contains="R-1", error="throttled"), False),
    ],
)
def test_r503_letters_are_chosen_by_every_rule_that_is_given(selection: Selection, *, takes: bool) -> None:
    letter = of_destination()
    assert selection.takes(letter, read_failure(letter)) is takes


def test_r503_a_letter_that_tells_no_time_is_in_no_window() -> None:
    letter = a_letter(EVENT)
    assert not Selection(earliest=START).takes(letter, read_failure(letter))
    sent = letter._replace(sent_at=START)
    assert Selection(earliest=START, latest=START).takes(sent, read_failure(sent))


def test_r503_redrive_ids_are_equal_for_one_letter_and_differ_between_two() -> None:
    letter = DeadLetter("m1", "{}", "r1", "A", "d1")
    assert redrive_id(letter) == redrive_id(letter._replace(receipt="r2", body="x"))
    others = [letter._replace(message_id="m2"), letter._replace(deduplication_id="d2"), letter._replace(message_id="")]
    assert len({redrive_id(one) for one in [letter, *others]}) == 4


@dataclass
class Pages:
    """Dead letters in pages of ten; those of `refused` do not go back."""

    letters: list[DeadLetter]
    refused: frozenset[str] = frozenset()
    redriven: list[str] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    closed: int = 0

    async def waiting(self) -> int:
        return len(self.letters)

    async def pages(self) -> AsyncGenerator[Sequence[DeadLetter], None]:
        try:
            for start in range(0, len(self.letters), 10):
                yield self.letters[start : start + 10]
        finally:
            self.closed += 1

    async def redrive(self, letters: Sequence[DeadLetter], /) -> list[InterlockError | None]:
        self.calls.append(len(letters))
        self.redriven += [one.message_id for one in letters if one.message_id not in self.refused]
        return [Unavailable("SQS", "no answer") if one.message_id in self.refused else None for one in letters]


def some(number: int) -> list[DeadLetter]:
    return [DeadLetter(f"m{n}", f'{{"id":"e{n}"}}', f"r{n}") for n in range(number)]


@pytest.mark.anyio
@pytest.mark.parametrize(("rate", "seconds", "largest"), [(1000, 0.035, 10), (5, 7, 5), (0.5, 70, 1)])
async def test_r503_no_more_go_back_than_the_rate_allows(rate: float, seconds: float, largest: int) -> None:
    pages, clock = Pages(some(35)), ManualClock(START)
    report = await redrive(pages, Selection(), clock, limit=100, rate=rate, told=lambda *_: None)
    assert clock.now() - START == pytest.approx(timedelta(seconds=seconds), abs=timedelta(milliseconds=1))
    assert max(pages.calls) == largest
    assert (report.waiting, report.seen, report.redriven, pages.closed) == (35, 35, 35, 1)
    assert pages.redriven == [f"m{n}" for n in range(35)]


@pytest.mark.anyio
async def test_r503_a_rehearsal_puts_nothing_back_and_names_the_same_letters() -> None:
    chosen = Selection(contains="e1")
    told: list[tuple[str, bool]] = []

    def tell(one: Letter, error: InterlockError | None) -> None:
        told.append((one.letter.message_id, error is None))

    rehearsal, pages = Pages(some(25)), Pages(some(25))
    report = await redrive(rehearsal, chosen, ManualClock(START), limit=5, rate=9, rehearse=True, told=tell)
    assert (rehearsal.calls, report.chosen, report.redriven) == ([], 5, 0)
    would, told = told, []
    report = await redrive(pages, chosen, ManualClock(START), limit=5, rate=9, told=tell)
    assert told == would == [("m1", True), *((f"m{n}", True) for n in range(10, 14))]
    assert report.seen == report.passed_over + report.redriven == 20


@pytest.mark.anyio
async def test_r503_what_was_seen_is_passed_over_redriven_or_failed() -> None:
    pages = Pages(some(30), refused=frozenset({"m3", "m12", "m29"}))
    told: list[str] = []
    report = await redrive(
        pages,
        Selection(message_ids=frozenset(f"m{n}" for n in range(0, 30, 3)) | {"nobody"}),
        ManualClock(START),
        limit=100,
        rate=100,
        told=lambda one, error: told.append(f"{one.letter.message_id}: {error}"),
    )
    assert (report.seen, report.passed_over, report.redriven, report.failed) == (30, 20, 8, 2)
    assert told[1] == "m3: SQS is unavailable: no answer"


@pytest.mark.anyio
async def test_r503_looking_ends_at_the_limit_and_closes_the_pages() -> None:
    pages = Pages(some(25))
    found = [one.letter.message_id async for one in find(pages, Selection(contains='"e1'), 4)]
    assert found == ["m1", "m10", "m11", "m12"]
    assert pages.closed == 1
