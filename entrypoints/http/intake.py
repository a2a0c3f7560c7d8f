"""The front door's one call, with the contract of the gateway: durable when answered (R-501, FC-35; ADR 0017).

The gateway puts the body into the queue without a function in between, so nothing here reads it either. What is wrong
with it is found by the processor, which keeps it in quarantine.
"""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse

from domain.errors import Invalid, Malformed, TooLarge
from domain.intake import MAX_MESSAGE_BYTES, check_body, to_body
from entrypoints.http.events import CLOUD_EVENT, CLOUD_EVENTS, JSON
from entrypoints.http.reading import identify, media_type, read_body
from ports.access import Access
from ports.clock import Clock
from ports.intake_queue import IntakeQueue
from ports.metrics import Metrics


@dataclass(frozen=True, slots=True)
class IntakeCalls:
    """The handler; it raises errors of the tree."""

    queue: IntakeQueue
    access: Access | None
    clock: Clock
    metrics: Metrics
    max_body_bytes: int

    async def post_intake(self, request: Request) -> JSONResponse:
        """Take in one body as one message, byte for byte; text as it is, anything else as base64 of its bytes."""
        await identify(self.access, request, "ingest", self.clock.now())
        media_type(request, (CLOUD_EVENT, CLOUD_EVENTS, JSON), encodings=("identity", "gzip"))
        raw = await read_body(request, min(self.max_body_bytes, MAX_MESSAGE_BYTES))
        message_ids = await self.queue.send([_checked(raw)])
        self.metrics.count("intake_messages_total")
        return JSONResponse({"message_ids": message_ids}, 202)


def _checked(raw: bytes) -> str:
    """Give the text of the message.

    Raises:
        TooLarge: over what a queue takes, as text.
        Malformed: there is nothing in it.
    """
    body = to_body(raw)
    try:
        check_body(body)
    except TooLarge:
        raise
    except Invalid as error:
        raise Malformed("", f"the body {error.reason}; send an event") from None
    return body
