from typing import NamedTuple

import pytest

from domain.fifo import lanes, message_group_id, to_return


class Place(NamedTuple):
    message_id: str
    group_id: str | None


BATCH = [Place("m1", "A"), Place("m2", "B"), Place("m3", "B"), Place("m4", "A")]


def test_fc48_a_failure_returns_itself_and_the_later_ones_of_its_group_only() -> None:
    """FC-48: m1(A) ok, m2(B) fails, m3(B), m4(A): m2 and m3 go back."""
    assert to_return(BATCH, {"m2"}) == ["m2", "m3"]


@pytest.mark.parametrize(
    ("failed", "returned"),
    [
        (set(), []),
        ({"m1"}, ["m1", "m4"]),
        ({"m3"}, ["m3"]),
        ({"m4"}, ["m4"]),
        ({"m1", "m2"}, ["m1", "m2", "m3", "m4"]),
        ({"m3", "m4"}, ["m3", "m4"]),
        ({"m1", "m2", "m3", "m4"}, ["m1", "m2", "m3", "m4"]),
        ({"unknown"}, []),
    ],
)
def test_fc48_every_failure_of_the_batch(failed: set[str], returned: list[str]) -> None:
    assert to_return(BATCH, failed) == returned


@pytest.mark.parametrize(
    ("failed", "spent", "returned"),
    [
        ({"m2"}, {"m2"}, ["m2"]),
        ({"m2", "m3"}, {"m2"}, ["m2", "m3"]),
        ({"m2", "m3"}, {"m2", "m3"}, ["m2", "m3"]),
        ({"m1", "m2"}, {"m2"}, ["m1", "m2", "m4"]),
        ({"m2"}, {"m3"}, ["m2", "m3"]),
        (set(), {"m2"}, []),
    ],
)
def test_fc48_a_message_that_failed_for_the_last_time_holds_nothing_back(
    failed: set[str], spent: set[str], returned: list[str]
) -> None:
    assert to_return(BATCH, failed, spent) == returned


def test_messages_without_a_group_hold_nothing_back_and_ids_come_once() -> None:
    batch = [Place("m1", None), Place("m2", None), Place("m1", None), Place("m3", None)]
    assert to_return(batch, {"m1"}) == ["m1"]
    assert to_return([], {"m1"}) == []


def test_r107_lanes_are_groups_in_order_and_ungrouped_messages_alone() -> None:
    batch = [*BATCH, Place("m5", None), Place("m6", None), Place("m7", "B")]
    assert [[place.message_id for place in lane] for lane in lanes(batch)] == [
        ["m1", "m4"],
        ["m2", "m3", "m7"],
        ["m5"],
        ["m6"],
    ]


def test_r106_a_group_id_is_the_entity_where_sqs_takes_it() -> None:
    for entity in ("N14228", "x" * 128, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "a"):
        assert message_group_id(entity) == entity


@pytest.mark.parametrize("entity", ["", "x" * 129, "a b", "é", "日本", "a\n", "\x7f", "sha256:abc"])
def test_r106_other_entities_are_digested(entity: str) -> None:
    group = message_group_id(entity)
    assert group.startswith("sha256:")
    assert len(group) == 7 + 64
    assert message_group_id(group) != group
