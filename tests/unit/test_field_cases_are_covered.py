"""Each field case that this part has to survive is a test under its id."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]

REQUIRED = {
    "fc14": "one event, delivered or published twice",
    "fc18": "a message that is too large, and a server that asks to slow down",
    "fc20": "the two nets below EventBridge and Lambda",
    "fc21": "a publish call that refuses some of its entries",
    "fc22": "a client kept from one run of the event loop to the next",
    "fc24": "two writers of one list",
    "fc25": "filtered lists and their last pages",
    "fc28": "numbers and values that stores refuse or change",
    "fc29": "secrets that only the top level, or only one spelling, was looked for",
    "fc33": "size limits of every hop",
    "fc34": "engines that are more lenient than AWS",
    "fc46": "columns that change their type from day to day",
    "fc47": "days that are loaded twice, half, late or while they are read",
    "fc35": "a body that is cut at an ampersand",
    "fc37": "an authorizer's answer that is kept for other paths",
    "fc39": "an answer without the ids that failed, or with others",
    "fc40": "one broken message that stops a batch, and events of another kind",
    "fc43": "names of objects that meet",
    "fc48": "a failure inside a FIFO batch",
    "fc52": "two changes in one instant",
    "fc54": "sort keys of times",
    "fc57": "lists that lag behind",
    "fc58": "numbers taken for times",
    "fc60": "messages with and without the envelope of SNS",
}


def covered() -> set[str]:
    """Give the ids that names of test functions carry."""
    names = {
        node.name
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }
    return {part for name in names for part in re.findall(r"(?<![a-z0-9])fc\d\d(?![0-9])", name)}


def test_every_required_field_case_names_a_test() -> None:
    assert not set(REQUIRED) - covered()
