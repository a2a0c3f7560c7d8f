"""The front door's processor: SQS batches of up to 1,000 in, objects on S3 out (R-502, R-504; FC-39, FC-40)."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from application.intake import Intake, IntakeReport, store_batch
from domain.errors import Misconfigured
from domain.messages import Received
from entrypoints.aws_lambda.batches import deadline_of, going_back, read_records, tell_failures
from entrypoints.aws_lambda.runtime import Context, Warm, log
from entrypoints.failures import rejection_fields
from entrypoints.wiring import make_intake, open_intake


class IntakeRuntime(Warm):
    """A container of the front door's processor."""

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        """Read the settings, and import the adapters while AWS starts the container at full speed."""
        super().__init__(variables)
        self.engine = open_intake(self.settings)
        with suppress(Misconfigured):  # the first call tells
            _ = self.engine.objects

    @cached_property
    def intake(self) -> Intake:
        """The processor's ports."""
        return make_intake(self.engine, self.metrics)

    def close(self) -> None:
        """Close clients and loop, as at the end of a container."""
        self.runner.run(self.engine.aclose())
        super().close()


RUNTIME: Final = IntakeRuntime()


def handler(event: dict[str, Any], context: Context) -> dict[str, list[dict[str, str]]]:
    """Keep a batch of messages as objects.

    Args:
        event: from an SQS queue, whose event source mapping reports batch item failures.
        context: of the invocation.

    Returns:
        `{"batchItemFailures": [{"itemIdentifier": message id}]}`: the messages that a storage error touched, and those
        for which no time was left. Malformed ones are in the quarantine, and not among them.

    Raises:
        Invalid: for an event that is not of SQS, and for a record without a message id.
        Misconfigured: the function's variables cannot work.
    """
    batch = read_records(event, context)
    intake = RUNTIME.intake
    report = RUNTIME.run_once(lambda: store_batch(intake, batch, deadline=deadline_of(context, intake.clock.now())))
    _tell(report, batch, context)
    return going_back(report.returned)


def _tell(report: IntakeReport, batch: Sequence[Received], context: Context) -> None:
    tell_failures(report.failures, batch, context)
    for message_id, rejections in report.rejections.items():
        log("warning", "message rejected", context, **rejection_fields(message_id, rejections))
    log(
        "info",
        "batch",
        context,
        received=report.received,
        stored=report.stored,
        quarantined=report.quarantined,
        returned=len(report.returned),
    )
