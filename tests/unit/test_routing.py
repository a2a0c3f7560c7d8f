"""Names, ids, task queues and the decision, as rules (R-302 to R-304, R-306, R-307; FC-14, FC-21)."""

from datetime import timedelta

import pytest
from pydantic import JsonValue

from domain.errors import Invalid
from domain.routing import (
    CATCH_ALL,
    MAX_ID_BYTES,
    MAX_WORKFLOWS,
    CatchAll,
    Directory,
    Offer,
    RoutingRules,
    Skip,
    Start,
    Workflow,
    catch_all_id,
    check_workflows,
    decide,
    directory,
    event_identity,
    report_id,
    workflow_id,
)
from tests.examples import START, an_envelope

RULES = RoutingRules()
BOTH = frozenset({"events", "exports"})


def served(*types: str, queues: frozenset[str] = BOTH) -> Directory:
    return {one: Workflow(f"{one}Workflow", queues) for one in types}


# ------------------------------------------------------------------------------------------------------------- the id
@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ({"event_id": "E-1"}, ("E-1", "detail")),
        ({"event_id": ""}, ("e1", "envelope")),
        ({"event_id": 7}, ("e1", "envelope")),
        ({"event_id": None}, ("e1", "envelope")),
        ({"event_id": ["E-1"]}, ("e1", "envelope")),
        ({"EVENT_ID": "E-1"}, ("e1", "envelope")),
        ({}, ("e1", "envelope")),
        (["event_id"], ("e1", "envelope")),
        ("event_id", ("e1", "envelope")),
        (None, ("e1", "envelope")),
    ],
)
def test_fc14_the_event_id_is_the_one_that_survives_a_republish(data: JsonValue, wanted: tuple[str, str]) -> None:
    assert event_identity(an_envelope("e1", data=data)) == wanted


@pytest.mark.parametrize(
    ("data", "wanted"), [({"report_id": "R1"}, "R1"), ({"report_id": ""}, None), ({"report_id": 1}, None), ([], None)]
)
def test_r307_a_report_id_is_a_text_in_the_detail(data: JsonValue, wanted: str | None) -> None:
    assert report_id(an_envelope(data=data)) == wanted


@pytest.mark.parametrize("event_id", ["e1", "A.b_C:d-e", "2013-01-01-UA-1545", "x" * 200])
def test_r304_a_plain_event_id_stands_in_the_workflow_id_as_it_is(event_id: str) -> None:
    assert workflow_id("OrderPlacedWorkflow", event_id) == f"OrderPlacedWorkflow-{event_id}"
    short = event_id[:100]
    assert catch_all_id("OrderPlaced", short) == f"UnmatchedEventWorkflow-OrderPlaced-{short}"


@pytest.mark.parametrize("event_id", ["x" * 201, "a b", "a/b", "é", "a\nb", "~", " e1", "e1 ", "日本", "\U0001f600"])
def test_r304_an_odd_event_id_is_replaced_by_one_digest_always_the_same(event_id: str) -> None:
    found = workflow_id("OrderPlacedWorkflow", event_id)
    assert found == workflow_id("OrderPlacedWorkflow", event_id)
    start, _, digest = found.rpartition("-")
    assert start == "OrderPlacedWorkflow"
    assert digest[0] == "~"
    assert len(digest) == 65


def test_r304_the_digests_are_these_ones_for_ever() -> None:
    """A release that made others would start every redelivered event once more."""
    assert (
        workflow_id("AWorkflow", "a b") == "AWorkflow-~465758d6418d3ba2209412c593322a9dce7ef652562ef929abedd27bc64f89d2"
    )
    assert workflow_id("A-BWorkflow", "e1") == "~66c0fd0415e8746730dcd522dd46942a2c977121cd604470a43b292a0267580b-e1"
    assert (
        catch_all_id("Order placed", "e1")
        == "UnmatchedEventWorkflow-~6df426583f78d137e07d4dd2ed085e5f8ada1e64cdcf2c5483aa5be7207eea99-e1"
    )


def test_r304_different_events_never_meet() -> None:
    """Each pair would, if parts were only joined."""
    digest_of_odd = workflow_id("AWorkflow", "a b").removeprefix("AWorkflow-")
    pairs = [
        (workflow_id("AWorkflow", "BWorkflow-c"), workflow_id("AWorkflow-BWorkflow", "c")),
        (workflow_id("AWorkflow", "-b"), workflow_id("AWorkflow-", "b")),
        (workflow_id("AWorkflow", digest_of_odd), workflow_id("AWorkflow", "a b")),
        (workflow_id("AWorkflow", digest_of_odd[1:]), workflow_id("AWorkflow", "a b")),
        (workflow_id("AWorkflow", "E1"), workflow_id("AWorkflow", "e1")),
        (workflow_id("AWorkflow", "é"), workflow_id("AWorkflow", "e\u0301")),
        (workflow_id("AWorkflow", "x" * 201), workflow_id("AWorkflow", "x" * 202)),
        (catch_all_id("A", "B-c"), catch_all_id("A-B", "c")),
        (catch_all_id("A-", "b"), catch_all_id("A", "-b")),
        (catch_all_id("", "b"), catch_all_id("b", "")),
        (catch_all_id("A", "e1"), workflow_id("AWorkflow", "e1")),
        (catch_all_id("A b", "e1"), catch_all_id("A  b", "e1")),
    ]
    for one, other in pairs:
        assert one != other


def test_r304_no_id_is_longer_than_temporal_takes() -> None:
    types = ["A", "A" * 128, "é" * 128, "a-" * 64]
    ids = ["e", "e" * 128, "e" * 200, "é" * 5000]
    made = [catch_all_id(one, event_id) for one in types for event_id in ids]
    made += [workflow_id(f"{one}Workflow", event_id) for one in types for event_id in ids]
    assert max(len(one.encode()) for one in made) <= MAX_ID_BYTES
    assert len(set(made)) == len(made)


def test_an_id_without_an_event_shows_where_the_events_id_would_stand() -> None:
    assert workflow_id("AWorkflow", None) == "AWorkflow-{event_id}"
    assert catch_all_id("A", None) == "UnmatchedEventWorkflow-A-{event_id}"


# --------------------------------------------------------------------------------------------------------- the queues
@pytest.mark.parametrize(
    ("event_type", "queue"),
    [
        ("ExportRequested", "exports"),
        ("Export", "exports"),
        ("acme.export.done", "exports"),
        ("exportRequested", "events"),
        ("ReportExported", "events"),
        ("acme.export", "events"),
        ("acme.Export.done", "events"),
        ("ReportRunCompletedEvent", "events"),
        ("", "events"),
    ],
)
def test_r306_exports_have_a_task_queue_of_their_own(event_type: str, queue: str) -> None:
    assert RULES.task_queue(event_type) == queue


def test_r306_the_patterns_are_configuration() -> None:
    assert RoutingRules(("*Dump",)).task_queue("NightlyDump") == "exports"
    assert RoutingRules(("*Dump",)).task_queue("ExportRequested") == "events"
    assert RoutingRules(()).task_queue("ExportRequested") == "events"


# ------------------------------------------------------------------------------------------------------- the directory
def test_r302_what_any_living_worker_serves_is_there_and_what_is_gone_is_not() -> None:
    offers = [
        Offer("a", ("AWorkflow", "BWorkflow"), ("events",), START + timedelta(seconds=1)),
        Offer("b", ("AWorkflow",), ("exports",), START + timedelta(seconds=1)),
        Offer("gone", ("CWorkflow",), ("events",), START),
    ]
    assert directory(offers, START) == {
        "A": Workflow("AWorkflow", BOTH),
        "B": Workflow("BWorkflow", frozenset({"events"})),
    }
    assert directory(offers, START + timedelta(seconds=1)) == {}


def test_names_that_no_type_asks_for_are_left_out() -> None:
    names = ["BWorkflow", "AWorkflow", "AWorkflow", "Workflow", "nightly", "workflowWorkflow", CATCH_ALL, "Aworkflow"]
    assert check_workflows(names) == ("AWorkflow", "BWorkflow", "workflowWorkflow")


def test_a_worker_that_serves_too_much_is_told() -> None:
    with pytest.raises(Invalid, match=r"'x{40}'… has 137 characters; the limit is 136"):
        check_workflows(["x" * 129 + "Workflow"])
    with pytest.raises(Invalid, match="1001; one worker may serve 1000"):
        check_workflows([f"{number}Workflow" for number in range(MAX_WORKFLOWS + 1)])


# -------------------------------------------------------------------------------------------------------- the decision
def test_r302_a_type_goes_to_the_workflow_of_its_name() -> None:
    decision = decide("ReportRunCompletedEvent", "e1", served("ReportRunCompletedEvent"), RULES)
    assert decision == Start(
        "ReportRunCompletedEventWorkflow",
        "ReportRunCompletedEventWorkflow-e1",
        "events",
        "a worker serves ReportRunCompletedEventWorkflow on the task queue events",
    )
    assert decision.outcome == "start"


@pytest.mark.parametrize(
    "event_type",
    ["", "order placed", "Order.Placed.v2", "x" * 200, "7", "reportruncompletedevent", "ReportRunCompletedEvent ", "*"],
)
def test_fc21_a_type_that_is_not_in_the_catalog_goes_to_the_catch_all_and_names_no_workflow(event_type: str) -> None:
    decision = decide(event_type, "e1", served("ReportRunCompletedEvent"), RULES)
    assert isinstance(decision, CatchAll)
    assert decision.outcome == "catch_all"
    assert decision.workflow == CATCH_ALL
    assert decision.why == "no worker serves a workflow for this type of event"


@pytest.mark.parametrize("event_type", ["Order.Placed.v2", "order placed", "Order-Placed", "UnmatchedEvent2"])
def test_fc21_any_type_in_the_catalog_has_its_workflow(event_type: str) -> None:
    decision = decide(event_type, "e1", served(event_type), RULES)
    assert isinstance(decision, Start)
    assert decision.workflow == f"{event_type}Workflow"


def test_an_event_of_the_catch_alls_own_name_is_caught_too() -> None:
    offers = [Offer("a", (CATCH_ALL,), ("events",), START + timedelta(seconds=1))]
    decision = decide("UnmatchedEvent", "e1", directory(offers, START), RULES)
    assert decision.workflow_id == "UnmatchedEventWorkflow-UnmatchedEvent-e1"
    assert isinstance(decision, CatchAll)


def test_r306_a_workflow_that_is_served_on_another_queue_only_would_wait_for_ever() -> None:
    decision = decide("ExportRequested", "e1", served("ExportRequested", queues=frozenset({"events"})), RULES)
    assert isinstance(decision, CatchAll)
    assert decision.task_queue == "exports"
    assert decision.why == "ExportRequestedWorkflow is served on events, but this type goes to exports"


@pytest.mark.parametrize("catalog", [served("ReportRunCompletedEvent"), {}])
def test_r307_a_listed_report_is_skipped_whatever_its_type(catalog: Directory) -> None:
    would = decide("ReportRunCompletedEvent", "e1", catalog, RULES)
    decision = decide("ReportRunCompletedEvent", "e1", catalog, RULES, "source is wrong")
    assert decision == Skip(would.workflow, would.workflow_id, would.task_queue, "on the skip list: source is wrong")
    assert decision.outcome == "skip"


def test_r307_an_empty_reason_skips_too() -> None:
    assert decide("A", "e1", {}, RULES, "").why == "on the skip list: no reason given"
