"""The activity feed: each event of an EventBridge rule becomes a row of its account's activity (R-401).

Imports no more than it needs: a test lists what it must not load (goal G19).
"""

from dataclasses import replace
from typing import Any, Final

from application.activity import Outcome, record
from domain.activity import activity_id
from domain.envelope import Envelope
from domain.errors import Invalid
from domain.eventbridge import MAX_EVENTBRIDGE_BYTES, from_eventbridge
from entrypoints.aws_lambda.runtime import Context, Runtime, log

RUNTIME: Final = Runtime(publishing=None)


def handler(event: dict[str, Any], context: Context) -> dict[str, str]:
    """Record one event, once however often it is delivered.

    Args:
        event: from EventBridge.
        context: of the invocation.

    Returns:
        `{"outcome": "recorded" | "duplicate", "activity_id"}`.

    Raises:
        Invalid: it is no EventBridge event, or one that cannot be kept; sent again it would fail again, so that
            EventBridge's retries end in the function's dead-letter queue, where nothing is lost.
        Misconfigured: the function's variables cannot work.
        Unavailable: a store did not answer; the event comes again.
    """
    try:
        envelope = _envelope(event)
        outcome = RUNTIME.run_once(lambda: _record(envelope))
    except Invalid as error:
        masked = _masked(error)
        log("error", "event refused", context, code=masked.code, reason=str(masked))
        raise masked from None
    row = activity_id(envelope)
    log("info", "activity", context, outcome=outcome, activity_id=row)
    return {"outcome": outcome, "activity_id": row}


def _envelope(event: object) -> Envelope:
    if not isinstance(event, dict) or event.keys().isdisjoint({"detail-type", "detail"}):
        raise Invalid("detail-type", "is missing: this function takes events of EventBridge")
    return from_eventbridge(event, max_bytes=MAX_EVENTBRIDGE_BYTES)


def _masked(error: Invalid) -> Invalid:
    """Give an error as AWS may log it: a place names keys of the event, and a key may be personal itself (FC-29)."""
    from domain.redaction import RedactionPolicy, mask_text  # noqa: PLC0415 - a twelfth of the cold start (goal G19)

    policy = RedactionPolicy()
    return replace(error, place=mask_text(policy, error.place), reason=mask_text(policy, error.reason), path=None)


async def _record(envelope: Envelope) -> Outcome:
    (outcome,) = await record(RUNTIME.activity.feed, [envelope])
    if isinstance(outcome, Invalid):
        raise outcome
    return outcome
