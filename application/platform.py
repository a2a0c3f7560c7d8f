"""What every use case of the lifecycle needs, in one value."""

from dataclasses import dataclass, field

from domain.lifecycle import DEFAULT_LIFECYCLE, LifecycleDefinition
from domain.retry import RetryRule
from ports.clock import Clock
from ports.event_store import EventStore
from ports.id_source import IdSource
from ports.metrics import Metrics
from ports.publisher import Publisher


@dataclass(frozen=True, slots=True)
class Platform:
    """The ports of the lifecycle, and its rules.

    Attributes:
        contention: how often a move is decided anew when other writers win, and how long it waits in between.
    """

    store: EventStore
    publisher: Publisher
    clock: Clock
    ids: IdSource
    metrics: Metrics
    definition: LifecycleDefinition = DEFAULT_LIFECYCLE
    contention: RetryRule = field(default=RetryRule(attempts=20, base=0.005, ceiling=0.25))
