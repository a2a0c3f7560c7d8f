"""The machine feed: an SQS event whose bodies are envelopes (R-105)."""

from typing import Any, Final

from application.consume import ingest_batch
from entrypoints.aws_lambda.batches import answer, read_records
from entrypoints.aws_lambda.runtime import Context, Runtime

RUNTIME: Final = Runtime(publishing=True)


def handler(event: dict[str, Any], context: Context) -> dict[str, list[dict[str, str]]]:
    """Record events, and publish one notification for each.

    Args:
        event: from an SQS queue; each body is one envelope.
        context: of the invocation.

    Returns:
        `{"batchItemFailures": [{"itemIdentifier": message id}]}`: bodies that are no envelope, and events that could
        not be recorded and notified.

    Raises:
        Invalid: for an event that is not of SQS.
        Misconfigured: the function's variables cannot work.
        Unavailable: the store did not answer; nothing was accepted, and the whole batch comes again.
    """
    batch = read_records(event, context)
    return answer(RUNTIME.run(lambda platform: ingest_batch(platform, batch)), batch, context)
