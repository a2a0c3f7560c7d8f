"""Functions on SQS: `transitions` and `ingestion` (CONTRACTS §§ 5 and 6; R-105 to R-107, R-110, FC-48, FC-60)."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import Invalid, Misconfigured
from domain.messages import TransitionRequested, ingested_message, requested_message
from entrypoints.aws_lambda import ingestion, transitions
from entrypoints.aws_lambda.runtime import Runtime
from tests.entrypoints.lambda_events import Context, a_record, an_sqs_event, failed_ids, from_queue, in_sns
from tests.examples import an_envelope

ROOT = Path(__file__).parents[2]
MEMORY = {"INTERLOCK_ENGINE": "memory"}


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """One container with both functions, so that each sees what the other did."""
    shared = Runtime(publishing=True, variables=MEMORY)
    monkeypatch.setattr(transitions, "RUNTIME", shared)
    monkeypatch.setattr(ingestion, "RUNTIME", shared)
    yield shared
    shared.close()


def ingested(event_id: str, entity: str = "A") -> str:
    return ingested_message(an_envelope(event_id, entity=entity)).body


def requested(event_id: str, to: str, entity: str = "A") -> str:
    request = TransitionRequested(
        event_id=event_id,
        entity=entity,
        to=to,
        actor="ada",
        command_id=f"{event_id}-{to}",
        requested_at="2026-01-01T12:00:00Z",
    )
    return requested_message(request).body


def states(runtime: Runtime, event_id: str) -> list[str]:
    stream = runtime.run(lambda platform: platform.store.stream(event_id))
    return [fact.to_state for fact in stream.history]


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_fc48_the_answer_returns_the_failed_message_and_the_later_ones_of_its_group(runtime: Runtime) -> None:
    event = an_sqs_event(
        a_record("m1", ingested("a"), group="A"),
        a_record("m2", "no JSON", group="B"),
        a_record("m3", ingested("b", "B"), group="B"),
        a_record("m4", requested("a", "open"), group="A"),
    )
    assert failed_ids(transitions.handler(event, Context())) == ["m2", "m3"]
    assert states(runtime, "a") == ["to_review", "open"]
    assert states(runtime, "b") == []


def test_fc48_when_all_fail_all_are_returned(runtime: Runtime) -> None:
    event = an_sqs_event(*(a_record(f"m{n}", "no JSON", group=f"G{n % 2}") for n in range(6)))
    assert failed_ids(transitions.handler(event, Context())) == [f"m{n}" for n in range(6)]
    assert failed_ids(ingestion.handler(event, Context())) == [f"m{n}" for n in range(6)]
    assert runtime.platform.metrics is runtime.metrics


def test_fc48_a_message_that_fails_for_the_last_time_is_noted_beside_the_history(runtime: Runtime) -> None:
    transitions.handler(an_sqs_event(a_record("m1", requested("x", "open"), receive_count=4)), Context())
    assert runtime.run(lambda platform: platform.store.stream("x")).missed == ()
    transitions.handler(an_sqs_event(a_record("m1", requested("x", "open"), receive_count=5)), Context())
    missed = runtime.run(lambda platform: platform.store.stream("x")).missed
    assert [miss.reason for miss in missed] == ["sent to the dead-letter queue: not_found"]


@pytest.mark.parametrize("wrap", [str, in_sns], ids=["raw", "wrapped by SNS"])
def test_fc60_bodies_come_raw_or_in_the_envelope_of_sns(wrap: Callable[[str], str], runtime: Runtime) -> None:
    event = an_sqs_event(a_record("m1", wrap(ingested("a"))), a_record("m2", wrap(requested("a", "open"))))
    assert failed_ids(transitions.handler(event, Context())) == []
    assert states(runtime, "a") == ["to_review", "open"]


def test_r110_a_redelivered_batch_changes_nothing(runtime: Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    event = an_sqs_event(a_record("m1", ingested("a")), a_record("m2", requested("a", "open")))
    for _ in range(3):
        assert failed_ids(transitions.handler(event, Context())) == []
    assert states(runtime, "a") == ["to_review", "open"]
    told = [line for line in lines(capsys) if line.get("event") == "batch"]
    assert [(line["received"], line.get("done"), line.get("duplicate")) for line in told] == [
        (2, 2, None),
        (2, None, 2),
        (2, None, 2),
    ]


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("function", [transitions, ingestion])
def test_an_empty_batch_is_answered_empty(function: ModuleType) -> None:
    assert function.handler({"Records": []}, Context()) == {"batchItemFailures": []}


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("function", [transitions, ingestion])
@pytest.mark.parametrize(
    "event",
    [
        {},
        None,
        [],
        "text",
        {"Records": None},
        {"Records": {}},
        {"Records": ["text"]},
        {"detail-type": "order", "detail": {}},
        {"Records": [{"eventSource": "aws:s3", "s3": {}}]},
        {"Records": [{"EventSource": "aws:sns", "Sns": {"Message": "{}"}}]},
    ],
)
def test_fc40_an_event_of_another_kind_raises_and_is_never_taken_for_an_empty_batch(
    function: ModuleType, event: Any
) -> None:
    with pytest.raises(Invalid, match=r"this function takes events of an SQS queue"):
        function.handler(event, Context())


@pytest.mark.parametrize("message_id", [None, "", 7])
@pytest.mark.parametrize("function", [transitions, ingestion])
def test_a_record_without_a_message_id_is_logged_and_the_call_raises(
    function: ModuleType, message_id: object, runtime: Runtime, capsys: pytest.CaptureFixture[str]
) -> None:
    record = a_record("m1", ingested("a")) | {"messageId": message_id}
    with pytest.raises(Invalid, match=r"Records\[1\]\.messageId"):
        function.handler(an_sqs_event(a_record("m0", ingested("a")), record), Context())
    assert [line["place"] for line in lines(capsys)] == ["Records[1]"]
    assert states(runtime, "a") == []


def test_no_message_is_started_when_the_time_runs_out(runtime: Runtime) -> None:
    event = an_sqs_event(a_record("m1", ingested("a")), a_record("m2", ingested("b", "B"), group="B"))
    assert failed_ids(transitions.handler(event, Context(milliseconds=900))) == ["m1", "m2"]
    assert states(runtime, "a") == []
    assert failed_ids(transitions.handler(event, Context(milliseconds=30_000))) == []


@pytest.mark.usefixtures("runtime")
def test_failures_are_logged_with_id_code_and_reason_but_never_with_content(capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps({"kind": "transition_requested", "event_id": "secret-id", "reason": "secret-reason"})
    transitions.handler(an_sqs_event(a_record("m1", body, receive_count=2)), Context())
    ingestion.handler(an_sqs_event(a_record("m2", '{"id": "secret"}', group=None)), Context())
    out = capsys.readouterr().out
    failures = [line for line in map(json.loads, out.splitlines()) if line.get("event") == "message failed"]
    assert [(line["message_id"], line["receive_count"], line["code"]) for line in failures] == [
        ("m1", 2, "invalid"),
        ("m2", 1, "invalid"),
    ]
    assert all(line["request_id"] == "request-1" and line["reason"] for line in failures)
    assert "secret" not in out


def test_figures_are_written_in_cloudwatchs_embedded_format(
    runtime: Runtime, capsys: pytest.CaptureFixture[str]
) -> None:
    event = an_sqs_event(a_record("m1", ingested("a")), a_record("m2", "no JSON", group="B"))
    transitions.handler(event, Context())
    figures = [line for line in lines(capsys) if "_aws" in line]
    counted = {
        line["outcome"]: line["consumed_messages_total"] for line in figures if "consumed_messages_total" in line
    }
    assert counted == {"done": 1, "returned": 1}
    (directive,) = figures[0]["_aws"]["CloudWatchMetrics"]
    assert directive["Namespace"] == "Interlock"
    assert directive["Dimensions"] == [["outcome"]]
    assert {metric["Name"] for metric in directive["Metrics"]} <= set(figures[0])
    runtime.metrics.flush()
    assert lines(capsys) == []


def test_the_feed_records_and_notifies_and_a_copy_is_harmless(runtime: Runtime) -> None:
    bodies = [an_envelope(f"e{n}", entity=f"N{n}").to_json() for n in range(25)]
    event = an_sqs_event(
        *(a_record(f"m{n}", body, group=None) for n, body in enumerate([*bodies, bodies[0], "no JSON"]))
    )
    assert failed_ids(ingestion.handler(event, Context())) == ["m26"]
    delivered = runtime.run(lambda _: runtime.engine.queue.receive(100, 0))
    assert len(delivered) == 25
    assert failed_ids(transitions.handler(from_queue(delivered), Context())) == []
    assert {tuple(states(runtime, f"e{n}")) for n in range(25)} == {("to_review",)}


@pytest.mark.parametrize("raw", ['"\\ud800"', "\ud800", '{"id": "\ud800"}', "", " ", "null", "[]", "1e400", "\x00"])
@pytest.mark.usefixtures("runtime")
def test_fc40_a_hostile_body_costs_its_own_message_only(raw: str) -> None:
    event = an_sqs_event(a_record("m1", raw), a_record("m2", an_envelope("good").to_json(), group="B"))
    assert failed_ids(ingestion.handler(event, Context())) == ["m1"]
    event = an_sqs_event(a_record("m1", raw), a_record("m2", ingested("good", "B"), group="B"))
    assert failed_ids(transitions.handler(event, Context())) == ["m1"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["m1", "m2", "m3", "m4", "m5"]), st.sampled_from(["A", "B", None]), st.booleans()),
        max_size=12,
    )
)
def test_ids_in_the_answer_are_of_the_batch_each_once(plan: list[tuple[str, str | None, bool]]) -> None:
    records = [
        a_record(message_id, ingested(message_id, group or "none") if good else "no JSON", group=group)
        for message_id, group, good in plan
    ]
    with pytest.MonkeyPatch.context() as monkeypatch:
        runtime = Runtime(publishing=True, variables=MEMORY)
        monkeypatch.setattr(transitions, "RUNTIME", runtime)
        returned = failed_ids(transitions.handler(an_sqs_event(*records), Context()))
        runtime.close()
    assert len(returned) == len(set(returned))
    assert set(returned) <= {message_id for message_id, _, _ in plan}


def test_a_variable_that_cannot_work_fails_the_start_of_the_function() -> None:
    with pytest.raises(Misconfigured, match="INTERLOCK_ENGINE"):
        Runtime(publishing=True, variables={"INTERLOCK_ENGINE": "aw"})


def test_a_feed_without_a_topic_says_so_before_it_records_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Runtime(publishing=True, variables={"INTERLOCK_ENGINE": "aws"})
    monkeypatch.setattr(ingestion, "RUNTIME", runtime)
    with pytest.raises(Misconfigured, match="INTERLOCK_LIFECYCLE__TOPIC_ARN: is not set"):
        ingestion.handler(an_sqs_event(a_record("m1", an_envelope().to_json(), group=None)), Context())
    runtime.close()


@pytest.mark.parametrize("module", ["transitions", "ingestion", "activity"])
def test_g19_a_function_loads_no_library_of_another_job(module: str) -> None:
    """In a fresh interpreter, set up for AWS as in production."""
    code = f"import sys, entrypoints.aws_lambda.{module}; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"INTERLOCK_ENGINE": "aws", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert {"boto3", "pydantic"} <= loaded
    assert "domain.redaction" not in run.stdout.split()  # who writes does not redact
    assert not loaded & {
        "dependency_injector",
        "dotenv",
        "fastapi",
        "google",
        "grpc",
        "httpx",
        "mangum",
        "prometheus_client",
        "pyarrow",
        "pydantic_settings",
        "redis",
        "rich",
        "sqlite3",
        "starlette",
        "structlog",
        "temporalio",
        "typer",
        "uvicorn",
    }
