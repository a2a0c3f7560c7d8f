import inspect
import re
from dataclasses import FrozenInstanceError

import pytest

from domain import errors
from domain.errors import (
    BadCursor,
    Conflict,
    Contention,
    CorruptHistory,
    Forbidden,
    InterlockError,
    Invalid,
    Malformed,
    Misconfigured,
    MoveRejected,
    NotFound,
    PartlyDone,
    Permanent,
    Retryable,
    StaleReceipt,
    TooLarge,
    Unauthenticated,
    Unavailable,
    VersionConflict,
)

EXAMPLES: dict[str, tuple[InterlockError, type[InterlockError], str]] = {
    "unavailable": (Unavailable("table", "throttled"), Retryable, "table is unavailable: throttled"),
    "contention": (Contention("e1", 20), Retryable, "event 'e1': other writers won 20 times in a row; try again"),
    "partly_done": (
        PartlyDone("table", 9, ("R1", "R2"), "throttled"),
        Retryable,
        "table did 9 and left 2 undone ('R1', 'R2'): throttled; repeat the call",
    ),
    "not_found": (NotFound("e1"), Permanent, "no event 'e1'"),
    "unauthenticated": (Unauthenticated(token_shown=True), Permanent, "the token is not valid"),
    "forbidden": (Forbidden("operate"), Permanent, "the token lacks the scope 'operate'"),
    "corrupt_history": (CorruptHistory("e1", "a gap"), Permanent, "history of event 'e1': a gap"),
    "misconfigured": (Misconfigured("base", "must be positive"), Permanent, "base: must be positive"),
    "version_conflict": (VersionConflict("e1", 3), Conflict, "event 'e1' is no longer at sequence 3"),
    "stale_receipt": (
        StaleReceipt("m1"),
        Conflict,
        "the receipt of message 'm1' is no longer valid; it will be delivered again",
    ),
    "move_rejected": (
        MoveRejected("e1", "closed", "no such move", "open", ("scheduled",)),
        Conflict,
        "event 'e1': no such move",
    ),
    "malformed": (Malformed("data[3]", "is a duplicate key"), Invalid, "data[3]: is a duplicate key"),
    "too_large": (TooLarge("", "is 9 bytes; the limit is 8", 9, 8), Invalid, "is 9 bytes; the limit is 8"),
    "bad_cursor": (BadCursor("cursor", "is no cursor"), Invalid, "cursor: is no cursor"),
}


def tree() -> list[type[InterlockError]]:
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, InterlockError)]
    assert InterlockError in found
    return found


def test_codes_are_stable_and_each_kind_has_its_own() -> None:
    codes = {kind.code: kind for kind in tree()}
    assert len(codes) == len(tree())
    branches = {"interlock_error", "retryable", "permanent", "conflict", "invalid"}
    assert set(codes) == branches | set(EXAMPLES)


def test_the_tree_that_the_module_draws_is_the_tree() -> None:
    drawn = re.findall("── ([A-Za-z]+)", inspect.getdoc(errors) or "")
    assert sorted(drawn) == sorted(kind.__name__ for kind in tree() if kind is not InterlockError)


@pytest.mark.parametrize("code", EXAMPLES)
def test_each_kind_is_below_the_branch_that_says_what_to_do_and_reads_in_one_line(code: str) -> None:
    error, branch, text = EXAMPLES[code]
    assert error.code == code
    assert isinstance(error, branch)
    assert not any(isinstance(error, other) for other in {Retryable, Permanent, Conflict, Invalid} - {branch})
    assert str(error) == text


@pytest.mark.parametrize("code", EXAMPLES)
def test_fields_are_written_once_and_raising_still_works(code: str) -> None:
    error = EXAMPLES[code][0]
    for name in list(vars(error)):
        with pytest.raises(FrozenInstanceError, match=name):
            setattr(error, name, "changed")

    def fail() -> None:
        raise error from ValueError("cause")

    with pytest.raises(type(error)) as caught:
        fail()
    assert caught.value is error
    assert isinstance(error.__cause__, ValueError)
    assert len({error, error}) == 1


def test_an_unshown_token_asks_for_one() -> None:
    assert str(Unauthenticated(token_shown=False)) == "a bearer token is needed"


def test_invalid_gives_its_place_as_steps_for_programs() -> None:
    assert Invalid("", "is nothing").steps == ()
    assert Invalid("state", "is unknown").steps == ("state",)
    error = Invalid('data["a.b"][3]', "is wrong", path=("data", "a.b", 3))
    assert error.steps == ("data", "a.b", 3)
