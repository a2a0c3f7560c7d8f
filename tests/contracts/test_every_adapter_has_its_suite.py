"""An adapter that inherits no contract suite is worth nothing: each is named by the suites it keeps."""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITES = Path(__file__).parent

# A port whose contract is one function over a file or an address has its tests beside those.
PORTS = sorted(path.stem for path in (ROOT / "ports").glob("[a-z]*.py") if path.stem != "access")


def adapters() -> set[str]:
    """Give the modules that are an adapter of a port: the file has the port's name."""
    return {
        f"adapters.{path.parent.name}.{path.stem}"
        for port in PORTS
        for path in (ROOT / "adapters").glob(f"*/{port}.py")
    }


def named(sources: Iterable[str]) -> dict[str, set[str]]:
    """Give the adapters that test classes name in `adapter` or `adapters`, with the suites that the classes inherit."""
    found: dict[str, set[str]] = {}
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.ClassDef) or not node.name.startswith("Test"):
                continue
            suites = {base.id for base in node.bases if isinstance(base, ast.Name) and base.id.endswith("Contract")}
            if "EmbeddedTopicContract" in suites:  # which is a TopicContract
                suites.add("TopicContract")
            for statement in node.body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    value = (
                        ast.literal_eval(statement.value) if statement.targets[0].id in ("adapter", "adapters") else ()
                    )
                    for name in (value,) if isinstance(value, str) else value:
                        found.setdefault(name, set()).update(suites)
    return found


def suites() -> dict[str, set[str]]:
    return named(path.read_text(encoding="utf-8") for path in SUITES.glob("test_*.py"))


SUITE_OF = {
    "activity_store": "ActivityStoreContract",
    "caught_events": "CaughtEventsContract",
    "clock": "ClockContract",
    "dead_letters": "DeadLettersContract",
    "event_bus": "EventBusContract",
    "event_store": "EventStoreContract",
    "event_table": "EventTableContract",
    "id_source": "IdSourceContract",
    "intake_queue": "IntakeQueueContract",
    "key_store": "KeyStoreContract",
    "message_queue": "TopicContract",
    "metrics": "MetricsContract",
    "object_store": "ObjectStoreContract",
    "publisher": "TopicContract",
    "skip_list_store": "SkipListStoreContract",
    "start_ledger": "StartLedgerContract",
    "workflow_catalog": "WorkflowCatalogContract",
    "workflow_history": "WorkflowHistoryContract",
    "workflow_starter": "WorkflowStarterContract",
}


def test_every_port_has_a_suite() -> None:
    assert set(PORTS) == set(SUITE_OF)
    for port, suite in SUITE_OF.items():
        where = "message_queue" if port == "publisher" else port
        assert f"class {suite}:" in (SUITES / f"{where}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("adapter", sorted(adapters()))
def test_every_adapter_keeps_the_suite_of_its_port(adapter: str) -> None:
    port = adapter.rpartition(".")[2]
    assert SUITE_OF[port] in suites().get(adapter, set()), f"{adapter} inherits no {SUITE_OF[port]}"


def test_every_adapter_that_a_suite_names_is_there() -> None:
    assert set(suites()) <= adapters()


def test_the_list_sees_an_adapter_without_a_suite() -> None:
    source = """
class TestOne(EventStoreContract):
    adapter = "adapters.one.event_store"

class TestTwo:
    adapter = "adapters.two.event_store"

class TestThree(TopicContract, Other):
    adapters = ("adapters.three.publisher", "adapters.three.message_queue")

class Four(EventStoreContract):
    adapter = "adapters.four.event_store"
"""
    assert named([source]) == {
        "adapters.one.event_store": {"EventStoreContract"},
        "adapters.two.event_store": set(),
        "adapters.three.publisher": {"TopicContract"},
        "adapters.three.message_queue": {"TopicContract"},
    }


def test_every_engine_is_in_the_list() -> None:
    found = adapters()
    for engine in ("memory", "sqlite", "dynamodb"):
        assert f"adapters.{engine}.event_store" in found
    for engine in ("memory", "sqlite", "sqs"):
        assert f"adapters.{engine}.message_queue" in found
    for engine in ("memory", "sqlite", "sns"):
        assert f"adapters.{engine}.publisher" in found
