"""The one place where errors of boto3 become ours.

Only the operation and the error code are repeated. The text that AWS sends may quote keys and values.
"""

from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)

from domain.errors import InterlockError, Invalid, Misconfigured, Unavailable

_TRY_AGAIN: Final = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InternalError",
        "InternalException",
        "InternalFailure",
        "InternalServerError",
        "KMSThrottlingException",
        "KmsThrottled",
        "LimitExceededException",
        "OverLimit",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttled",
        "ThrottledException",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionConflict",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_NOT_THERE: Final = frozenset(
    {
        "AWS.SimpleQueueService.NonExistentQueue",
        "NoSuchBucket",
        "NotFound",
        "NotFoundException",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
    }
)
_SERVER_ERROR: Final = 500


def error_code(error: ClientError) -> str:
    """Give the code that AWS answered with, such as `ThrottlingException`."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_transient(code: str) -> bool:
    """Say whether a code means that the same call may succeed later."""
    return code in _TRY_AGAIN


def translate(dependency: str, error: BotoCoreError | ClientError) -> InterlockError:
    """Turn an error of boto3 into one of ours.

    | boto3 | ours |
    |---|---|
    | throttling, 5xx, a conflict with a transaction, expired credentials (they are renewed) | `Unavailable` |
    | no connection, time-out, connection lost | `Unavailable` |
    | no such table, index, topic or queue | `Misconfigured` |
    | access denied, no credentials, no region, refused parameters, all else | `Misconfigured` |

    Args:
        dependency: the service, such as `DynamoDB`.
        error: what boto3 raised.
    """
    if isinstance(error, ClientError):
        return _translate_answer(dependency, error)
    if isinstance(error, (BotoConnectionError, HTTPClientError)):
        return Unavailable(dependency, type(error).__name__)
    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        return Misconfigured(dependency, "no AWS credentials were found; see the AWS SDK's credential chain")
    if isinstance(error, NoRegionError):
        return Misconfigured(dependency, "no AWS region is set; set AWS_REGION")
    return Misconfigured(dependency, type(error).__name__)


def entry_error(dependency: str, code: str, *, senders_fault: bool) -> InterlockError:
    """Turn a refused entry of a batch into an error: such a call answers 200 all the same (FC-21).

    Args:
        dependency: the service, such as `SNS`.
        code: of the entry.
        senders_fault: what AWS says about whose fault it was.
    """
    if senders_fault and not is_transient(code):
        return Invalid("message", f"{dependency} refused it: {code}")
    return Unavailable(dependency, f"one entry of a batch was answered {code}")


def _translate_answer(dependency: str, error: ClientError) -> InterlockError:
    code = error_code(error)
    reason = f"{error.operation_name} answered {code}"
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if is_transient(code) or status >= _SERVER_ERROR:
        return Unavailable(dependency, reason)
    if code in _NOT_THERE:
        reason += ": it does not exist; see `interlock tables create`"
    return Misconfigured(dependency, reason)
