"""Where the engines of the tests differ from EventBridge (docs/reference/engines.md; FC-34).

A strict xfail is a difference that is known: the test fails when the engine closes it, and then the list is shortened.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from tests.engines import Engine, event_queue

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient

LENIENT = pytest.mark.xfail(strict=True, raises=AssertionError)
BOTH = [pytest.param("ministack", marks=LENIENT), pytest.param("moto", marks=LENIENT)]


@pytest.fixture
def bus(request: pytest.FixtureRequest) -> Iterator[tuple["EventBridgeClient", str]]:
    engine: Engine = request.getfixturevalue(request.param)
    with event_queue(engine) as made:
        yield engine.aws.events.client(), made.bus


def is_refused(bus: tuple["EventBridgeClient", str], **changes: str) -> bool:
    """Say whether an entry is refused, by itself or with its request."""
    client, name = bus
    entry: Any = {"EventBusName": name, "Source": "shop", "DetailType": "T", "Detail": "{}", **changes}
    try:
        return client.put_events(Entries=[entry])["FailedEntryCount"] == 1
    except ClientError:
        return True


@pytest.mark.parametrize("bus", BOTH, indirect=True)
def test_fc34_a_detail_type_over_128_characters_is_refused(bus: tuple["EventBridgeClient", str]) -> None:
    """`domain.envelope` holds it before the call."""
    assert is_refused(bus, DetailType="T" * 129)


@pytest.mark.parametrize("bus", [pytest.param("ministack", marks=LENIENT), "moto"], indirect=True)
def test_fc34_a_request_over_a_mebibyte_is_refused(bus: tuple["EventBridgeClient", str]) -> None:
    """`domain.eventbridge` holds it before the call. On moto it is the queue of the rule that refuses."""
    assert is_refused(bus, Detail='{"x":"' + "x" * 1024 * 1024 + '"}')


@pytest.mark.parametrize("bus", [pytest.param("ministack", marks=LENIENT), "moto"], indirect=True)
def test_fc34_a_detail_that_is_not_json_is_refused(bus: tuple["EventBridgeClient", str]) -> None:
    """Ours are written by `domain.eventbridge`, and always are."""
    assert is_refused(bus, Detail="{")


@pytest.mark.parametrize("bus", ["ministack", pytest.param("moto", marks=LENIENT)], indirect=True)
def test_fc34_a_source_of_aws_is_refused(bus: tuple["EventBridgeClient", str]) -> None:
    """`domain.eventbridge` holds it before the call."""
    assert is_refused(bus, Source="aws.ec2")
