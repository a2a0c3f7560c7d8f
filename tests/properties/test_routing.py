"""Ids of workflows: copies always meet, different events never do (R-304)."""

from hypothesis import given
from hypothesis import strategies as st

from domain.routing import (
    CATCH_ALL,
    MAX_ID_BYTES,
    CatchAll,
    RoutingRules,
    Start,
    Workflow,
    catch_all_id,
    decide,
    workflow_id,
)

# Few letters, and those that parts are joined with: what would meet, meets often.
CONFUSING = st.text("aA-~._: é", max_size=12)
NAMES = st.one_of(CONFUSING, st.text(max_size=128)).filter(lambda text: not _has_surrogates(text))
EVENT_IDS = st.one_of(CONFUSING, st.text(max_size=300), st.text("x", min_size=150, max_size=300)).filter(
    lambda text: not _has_surrogates(text)
)
EVENTS = st.tuples(NAMES, EVENT_IDS)


def _has_surrogates(text: str) -> bool:
    return any(0xD800 <= ord(character) <= 0xDFFF for character in text)


@given(EVENTS, EVENTS)
def test_r304_two_events_share_an_id_only_if_they_are_one(one: tuple[str, str], other: tuple[str, str]) -> None:
    ids = [(workflow_id(f"{name}Workflow", event_id), catch_all_id(name, event_id)) for name, event_id in (one, other)]
    for first, second in zip(*ids, strict=True):
        assert (first == second) == (one == other)
    if f"{one[0]}Workflow" != CATCH_ALL:
        assert workflow_id(f"{one[0]}Workflow", one[1]) != catch_all_id(*other)


@given(NAMES, EVENT_IDS, st.lists(st.text("aA-~", max_size=3), max_size=4))
def test_r304_parts_that_are_cut_elsewhere_make_another_id(name: str, event_id: str, pieces: list[str]) -> None:
    joined = "-".join([name, event_id, *pieces])
    cuts = [(joined[:at], joined[at + 1 :]) for at, character in enumerate(joined) if character == "-"]
    assert len({workflow_id(*cut) for cut in cuts}) == len(set(cuts))
    assert len({catch_all_id(*cut) for cut in cuts}) == len(set(cuts))


@given(NAMES, EVENT_IDS)
def test_r304_ids_are_short_and_begin_with_what_they_are_for(name: str, event_id: str) -> None:
    for made in (workflow_id(f"{name}Workflow", event_id), catch_all_id(name, event_id)):
        assert len(made.encode()) <= MAX_ID_BYTES
        assert made.isprintable()
    assert catch_all_id(name, event_id).startswith(f"{CATCH_ALL}-")


@given(NAMES, EVENT_IDS, st.sets(NAMES, max_size=4))
def test_fc21_a_workflow_is_started_only_by_a_name_of_the_catalog(
    event_type: str, event_id: str, served: set[str]
) -> None:
    queues = frozenset({"events", "exports"})
    catalog = {one: Workflow(f"{one}Workflow", queues) for one in served}
    decision = decide(event_type, event_id, catalog, RoutingRules())
    assert isinstance(decision, Start if event_type in served else CatchAll)
    assert decision.workflow in {CATCH_ALL, *(workflow.name for workflow in catalog.values())}
