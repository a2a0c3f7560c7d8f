"""How failures look to gRPC callers: a status code, a text, and `google.rpc.BadRequest` where a field is at fault.

Invalid                        INVALID_ARGUMENT, with the field and the rule
Unauthenticated, Forbidden     UNAUTHENTICATED, PERMISSION_DENIED
Retryable                      UNAVAILABLE: the same call may succeed later
anything else                  INTERNAL, and nothing of the inside in the text (FC-09)
"""

from typing import Final, NamedTuple

import structlog
from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from domain.errors import Forbidden, InterlockError, Invalid, Retryable, Unauthenticated
from entrypoints.failures import code_of, reason_of

DETAILS: Final = "grpc-status-details-bin"
"""Metadata that holds a `google.rpc.Status`: the richer error model of gRPC."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger("interlock.grpc")


class Refusal(NamedTuple):
    """What a call ends with."""

    code: StatusCode
    text: str
    metadata: tuple[tuple[str, bytes], ...] = ()


def refusal(error: BaseException, method: str) -> Refusal:
    """Say how a call ends that failed; a fault of ours is logged."""
    match error:
        case Invalid(place=place, reason=reason):
            return _bad_request(place, reason)
        case Unauthenticated():
            return Refusal(StatusCode.UNAUTHENTICATED, str(error))
        case Forbidden():
            return Refusal(StatusCode.PERMISSION_DENIED, str(error))
        case Retryable():
            return Refusal(StatusCode.UNAVAILABLE, str(error))
        case _:
            fault = isinstance(error, InterlockError)
            _log.error("call failed", method=method, code=code_of(error), reason=reason_of(error), foreseen=fault)
            return Refusal(StatusCode.INTERNAL, "an error inside the server; its log says more")


def _bad_request(field: str, reason: str) -> Refusal:
    code, text = StatusCode.INVALID_ARGUMENT, f"{field}: {reason}"
    violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=reason)
    detail = Any()
    detail.Pack(error_details_pb2.BadRequest(field_violations=[violation]))
    status = status_pb2.Status(code=code.value[0], message=text, details=[detail])
    return Refusal(code, text, ((DETAILS, status.SerializeToString()),))
