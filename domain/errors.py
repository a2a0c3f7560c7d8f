"""The one error tree. Callers catch the branch that says what they can do next.

    InterlockError
    ├── Retryable        try again later, the same call may succeed
    │   ├── Unavailable      a store, queue or topic did not answer or throttled us
    │   ├── Contention       too many writers on one event; the bounded re-decide gave up
    │   └── PartlyDone       a bulk edit stopped half-way; what is left is named, and repeating it all is safe
    ├── Permanent        the same call can never succeed
    │   ├── NotFound         no such event
    │   ├── Unauthenticated  no token, or one that opens nothing
    │   ├── Forbidden        a good token without the scope that the call needs
    │   ├── CorruptHistory   what is stored breaks a rule that every writer keeps
    │   └── Misconfigured    a setting is missing or cannot work
    ├── Conflict         someone else's fact stands in the way; look again, then decide
    │   ├── VersionConflict  the head moved since it was read
    │   ├── StaleReceipt     a message was handed to someone else in the meantime
    │   └── MoveRejected     the lifecycle has no such move from the current state
    └── Invalid          the input breaks a rule; the place and the reason are named
        ├── Malformed        text that is not strict JSON
        ├── TooLarge         over a size limit; size and limit are named
        └── BadCursor        a page cursor that this query did not hand out

Messages hold ids, places, sizes and rules. They never hold payloads or tokens.
"""

from dataclasses import FrozenInstanceError, dataclass, field
from typing import ClassVar


@dataclass(eq=False)
class InterlockError(Exception):
    """Root of the tree. `code` is stable: clients and dashboards may match on it.

    Fields are written once. `@dataclass(frozen=True)` would also refuse `__traceback__` and
    `__cause__`, which contextlib and `raise … from` assign, so the guard is here instead.
    """

    code: ClassVar[str] = "interlock_error"

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse to change a field after construction."""
        if name in self.__dict__ and not name.startswith("__"):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super().__setattr__(name, value)

    def __str__(self) -> str:
        """Say what happened, in one line."""
        return self.code


@dataclass(eq=False)
class Retryable(InterlockError):
    """Try again later: the same call may succeed."""

    code: ClassVar[str] = "retryable"


@dataclass(eq=False)
class Unavailable(Retryable):
    """An outside system did not answer, or asked us to slow down."""

    code: ClassVar[str] = "unavailable"
    dependency: str
    reason: str

    def __str__(self) -> str:
        """Name the system and its reason."""
        return f"{self.dependency} is unavailable: {self.reason}"


@dataclass(eq=False)
class Contention(Retryable):
    """Every bounded attempt to append met another writer."""

    code: ClassVar[str] = "contention"
    event_id: str
    attempts: int

    def __str__(self) -> str:
        """Name the event and the attempts made."""
        return f"event {self.event_id!r}: other writers won {self.attempts} times in a row; try again"


@dataclass(eq=False)
class PartlyDone(Retryable):
    """A bulk edit stopped half-way. `left`: what was not done, or not surely; the whole call may be repeated."""

    code: ClassVar[str] = "partly_done"
    dependency: str
    done: int
    left: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        """Count both parts, and name the first that are left."""
        named = ", ".join(repr(name) for name in self.left[:10])
        more = ", …" if len(self.left) > 10 else ""  # noqa: PLR2004 - as many as fit a line
        return (
            f"{self.dependency} did {self.done} and left {len(self.left)} undone ({named}{more}): {self.reason}; "
            "repeat the call"
        )


@dataclass(eq=False)
class Permanent(InterlockError):
    """The same call can never succeed."""

    code: ClassVar[str] = "permanent"


@dataclass(eq=False)
class NotFound(Permanent):
    """There is no event of this id."""

    code: ClassVar[str] = "not_found"
    event_id: str

    def __str__(self) -> str:
        """Name the event."""
        return f"no event {self.event_id!r}"


@dataclass(eq=False)
class Unauthenticated(Permanent):
    """The caller did not show who it is. Why a token was refused is never said."""

    code: ClassVar[str] = "unauthenticated"
    token_shown: bool

    def __str__(self) -> str:
        """Say what to do, and nothing about the token."""
        return "the token is not valid" if self.token_shown else "a bearer token is needed"


@dataclass(eq=False)
class Forbidden(Permanent):
    """The caller is known and lacks a scope."""

    code: ClassVar[str] = "forbidden"
    scope: str

    def __str__(self) -> str:
        """Name the scope."""
        return f"the token lacks the scope {self.scope!r}"


@dataclass(eq=False)
class CorruptHistory(Permanent):
    """The stored facts of an event are not a chain."""

    code: ClassVar[str] = "corrupt_history"
    event_id: str
    reason: str

    def __str__(self) -> str:
        """Name the event and the broken link."""
        return f"history of event {self.event_id!r}: {self.reason}"


@dataclass(eq=False)
class Misconfigured(Permanent):
    """A setting is missing or cannot work."""

    code: ClassVar[str] = "misconfigured"
    setting: str
    reason: str

    def __str__(self) -> str:
        """Name the setting and the fix."""
        return f"{self.setting}: {self.reason}"


@dataclass(eq=False)
class Conflict(InterlockError):
    """Someone else's fact stands in the way."""

    code: ClassVar[str] = "conflict"


@dataclass(eq=False)
class VersionConflict(Conflict):
    """The head of the event is not where the writer saw it."""

    code: ClassVar[str] = "version_conflict"
    event_id: str
    expected: int

    def __str__(self) -> str:
        """Name the event and the sequence that was expected."""
        return f"event {self.event_id!r} is no longer at sequence {self.expected}"


@dataclass(eq=False)
class StaleReceipt(Conflict):
    """The receipt of a message ran out: the message stays in the queue."""

    code: ClassVar[str] = "stale_receipt"
    message_id: str

    def __str__(self) -> str:
        """Name the message."""
        return f"the receipt of message {self.message_id!r} is no longer valid; it will be delivered again"


@dataclass(eq=False)
class MoveRejected(Conflict):
    """The lifecycle has no such move now (R-101). `reused`: the command id was used for another move before."""

    code: ClassVar[str] = "move_rejected"
    event_id: str
    to: str
    reason: str
    current_state: str | None
    legal_moves: tuple[str, ...]
    reused: bool = False

    def __str__(self) -> str:
        """Say why, and what would be legal."""
        return f"event {self.event_id!r}: {self.reason}"


@dataclass(eq=False)
class Invalid(InterlockError):
    """Input that breaks a rule.

    Args:
        place: where, as in `data.items[3].price`; empty for the input as a whole.
        reason: the rule, and what to do about it.
        path: the steps to the place, for readers that are programs; None where the place is one name or none.
    """

    code: ClassVar[str] = "invalid"
    place: str
    reason: str
    path: tuple[str | int, ...] | None = field(default=None, kw_only=True)

    @property
    def steps(self) -> tuple[str | int, ...]:
        """The steps to the place: keys, and indexes of arrays."""
        if self.path is not None:
            return self.path
        return (self.place,) if self.place else ()

    def __str__(self) -> str:
        """Name the place, then the reason."""
        return f"{self.place}: {self.reason}" if self.place else self.reason


@dataclass(eq=False)
class Malformed(Invalid):
    """Text that is not strict JSON."""

    code: ClassVar[str] = "malformed"


@dataclass(eq=False)
class TooLarge(Invalid):
    """Input over a size limit."""

    code: ClassVar[str] = "too_large"
    size: int
    limit: int


@dataclass(eq=False)
class BadCursor(Invalid):
    """A cursor that this query did not hand out."""

    code: ClassVar[str] = "bad_cursor"
