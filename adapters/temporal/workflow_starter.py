"""Starting workflows on Temporal (ports/workflow_starter.py; R-304, R-305; ADR 0011).

One request is one call: the SDK's retries are off, and so attempts are counted once, by `application.route`. The call
is the service's own, because the client's `start_workflow` retries, and names each request anew: then a start whose
answer was lost would be taken for somebody else's.
"""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from temporalio.api.common.v1 import Payload
from temporalio.api.errordetails.v1 import WorkflowExecutionAlreadyStartedFailure
from temporalio.api.workflowservice.v1 import StartWorkflowExecutionRequest
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from adapters.temporal.connection import TEMPORAL, Temporal, translate
from domain.errors import TooLarge, Unavailable
from domain.routing import CATCH_ALL, Started, StartRequest

if TYPE_CHECKING:
    from temporalio.client import Client

MAX_PAYLOAD_BYTES: Final = 2 * 1024 * 1024
"""What the server takes as a payload, unless its `limit.blobSize.error` says otherwise."""

EVENT_ID: Final = "interlock.event_id"
SOURCE: Final = "interlock.source"
TYPE: Final = "interlock.type"
WHY: Final = "interlock.why"


class TemporalStarter:
    """Starts workflows with one argument, the envelope as it came, and a memo (CONTRACTS § 7)."""

    def __init__(self, temporal: Temporal) -> None:
        """Start them on this server."""
        self._temporal = temporal

    async def start(self, request: StartRequest, seconds: float, /) -> Started:
        """Ask once for a workflow to be started; see the port."""
        client = await self._temporal.client()
        message = await make_request(client, request)
        try:
            async with asyncio.timeout(seconds):  # the call's own limit does not count the time to connect
                answer = await client.workflow_service.start_workflow_execution(
                    message, retry=False, timeout=timedelta(seconds=seconds)
                )
        except TimeoutError:
            raise Unavailable(TEMPORAL, f"no answer within {seconds:.1f} s") from None
        except RPCError as error:
            if error.status is RPCStatusCode.ALREADY_EXISTS:
                return Started(_run_id(error), is_new=False)
            raise translate(error) from error
        except RuntimeError as error:
            raise translate(error) from error
        return Started(answer.run_id, is_new=True)


async def make_request(client: "Client", request: StartRequest) -> StartWorkflowExecutionRequest:
    """Put together what is sent.

    Raises:
        TooLarge: the event does not fit.
    """
    envelope = request.envelope
    memo = {EVENT_ID: request.event_id, SOURCE: envelope.source}
    if request.workflow == CATCH_ALL:
        memo |= {TYPE: envelope.type, WHY: request.why}
    argument, *values = await client.data_converter.encode([envelope.attributes(), *memo.values()])
    _check_size(argument)
    message = StartWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_id=request.workflow_id,
        request_id=request.start_id,
        identity=client.identity,
        # `int`: the enums of the SDK and those of the wire have the same numbers, and no common type.
        workflow_id_reuse_policy=int(WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY),  # type: ignore[arg-type]
        workflow_id_conflict_policy=int(WorkflowIDConflictPolicy.FAIL),  # type: ignore[arg-type]
    )
    message.workflow_type.name = request.workflow
    message.task_queue.name = request.task_queue
    message.input.payloads.append(argument)
    for name, value in zip(memo, values, strict=True):
        message.memo.fields[name].CopyFrom(value)
    return message


def _check_size(argument: Payload) -> None:
    """Refuse what the server would refuse (FC-18).

    Raises:
        TooLarge: naming size and limit.
    """
    size = argument.ByteSize()
    if size > MAX_PAYLOAD_BYTES:
        reason = f"is {size} bytes as {TEMPORAL} gets it; the limit is {MAX_PAYLOAD_BYTES}"
        raise TooLarge("", reason, size, MAX_PAYLOAD_BYTES)


def _run_id(error: RPCError) -> str:
    """Give the run that stands under the id; empty where the server, or something on the way, does not say."""
    details = WorkflowExecutionAlreadyStartedFailure()
    if error.raw_grpc_status and any(detail.Unpack(details) for detail in error.grpc_status.details):
        return details.run_id
    return ""
