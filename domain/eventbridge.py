"""EventBridge events as envelopes (CONTRACTS § 1)."""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from domain.envelope import Envelope
from domain.envelope import from_eventbridge as strictly_from_eventbridge

MAX_EVENTBRIDGE_BYTES: Final = 1024 * 1024


def from_eventbridge(event: Mapping[str, JsonValue]) -> Envelope:
    """Give the envelope of an EventBridge event: `type` = detail-type, `data` = detail, the rest extensions.

    Raises:
        TooLarge: over 1 MiB as compact UTF-8, which is what EventBridge takes since January 2026 (FC-33).
        Invalid: with the place of the EventBridge field.
    """
    return strictly_from_eventbridge(event, max_bytes=MAX_EVENTBRIDGE_BYTES)
