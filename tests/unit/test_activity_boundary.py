"""One place reads activity and redacts it: nobody else can get at what writers put in (R-403)."""

import ast
from functools import cache
from pathlib import Path

import pytest

from adapters.memory.activity_store import MemoryActivityStore
from tests.activity import a_feed, a_history

ROOT = Path(__file__).parents[2]
PACKAGES = ("domain", "ports", "application", "adapters", "entrypoints")
MAY_UNSEAL = {
    "domain/activity.py",
    "application/activity.py",
    "application/activity_history.py",
    "adapters/memory/activity_store.py",
    "adapters/sqlite/activity_store.py",
    "adapters/dynamodb/activity_rows.py",
}
MAY_FIND = {
    "ports/activity_store.py",
    "application/activity_history.py",
    "adapters/memory/activity_store.py",
    "adapters/sqlite/activity_store.py",
    "adapters/dynamodb/activity_store.py",
}


@cache
def trees() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }


def users(*names: str) -> set[str]:
    """Give the modules that use a name, as a variable, an attribute or an import."""
    return {
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if (isinstance(node, ast.Name) and node.id in names)
        or (isinstance(node, ast.Attribute) and node.attr in names)
        or (isinstance(node, ast.alias) and node.name in names)
    }


def test_r403_only_stores_and_the_reader_open_what_is_sealed() -> None:
    assert users("unsealed") <= MAY_UNSEAL
    assert {"application/activity_history.py", "adapters/sqlite/activity_store.py"} <= users("unsealed")


def test_r403_only_the_reader_asks_a_store_for_rows() -> None:
    """`Stretch` is what `find` takes, so whoever asks for rows names it."""
    assert users("Stretch") <= MAY_FIND | {"domain/activity.py"}
    assert "application/activity_history.py" in users("Stretch")


def test_r403_the_reader_keeps_its_store_to_itself() -> None:
    history = a_history(a_feed(MemoryActivityStore()))
    assert [name for name in dir(history) if not name.startswith("_")] == ["check", "page"]


@pytest.mark.parametrize("name", ["_text", "_Sealed__text"])
def test_r403_nobody_reaches_around_the_seal(name: str) -> None:
    reaching = {
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id not in {"self", "other"}
        and module.startswith(("application/", "entrypoints/"))
    }
    assert reaching == set()
