"""The transition consumer: SQS FIFO in, one entity's messages in order (R-105 to R-107, R-110).

Imports no more than it needs: a test lists what it must not load (goal G19).
"""

from typing import Any, Final

from application.consume import BatchReport, apply_batch
from application.platform import Platform
from entrypoints.aws_lambda.batches import answer, deadline_of, read_records
from entrypoints.aws_lambda.runtime import Context, Runtime

RUNTIME: Final = Runtime(publishing=False)


def handler(event: dict[str, Any], context: Context) -> dict[str, list[dict[str, str]]]:
    """Apply a batch of notifications and requested transitions.

    Args:
        event: from an SQS FIFO queue, fed by SNS with or without raw delivery.
        context: of the invocation.

    Returns:
        `{"batchItemFailures": [{"itemIdentifier": message id}]}`: the failed ones, the later ones of their groups, and
        those for which no time was left.

    Raises:
        Invalid: for an event that is not of SQS.
        Misconfigured: the function's variables cannot work.
    """
    batch = read_records(event, context)

    async def work(platform: Platform) -> BatchReport:
        return await apply_batch(
            platform,
            batch,
            max_receives=RUNTIME.settings.lifecycle.max_receives,
            deadline=deadline_of(context, platform.clock.now()),
        )

    return answer(RUNTIME.run(work), batch, context)
