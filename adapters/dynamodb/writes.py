"""Conditional writes, one alone or many in a transaction, with the same kind of answer."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from botocore.exceptions import ClientError

from adapters.aws.clients import Service
from adapters.aws.errors import error_code, is_transient
from domain.errors import Misconfigured, Unavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

Reason: TypeAlias = Mapping[str, Any]


async def write_one(db: "Service[DynamoDBClient]", write: "TransactWriteItemTypeDef") -> Sequence[Reason]:
    """Put or update one item; the answer is that of a transaction of one."""

    def send(client: "DynamoDBClient") -> object:
        put, update = write.get("Put"), write.get("Update")
        return client.put_item(**put) if put else client.update_item(**cast("Any", update))

    try:
        await db.call(send, expect={"ConditionalCheckFailedException", "TransactionConflictException"})
    except ClientError as error:
        return [{"Code": error_code(error).removesuffix("Exception"), "Item": error.response.get("Item")}]
    return []


async def transact(db: "Service[DynamoDBClient]", writes: "Sequence[TransactWriteItemTypeDef]") -> Sequence[Reason]:
    """Write all or nothing.

    Returns:
        Nothing when it was written; else a reason for each write, with the code `None` for those not to blame,
        `ConditionalCheckFailed` (what is stored is its `Item`), or `TransactionConflict`.

    Raises:
        Unavailable: it was cancelled for another reason that may pass.
        Misconfigured: it was cancelled for one that will not.
    """
    try:
        await db.call(
            lambda client: client.transact_write_items(TransactItems=writes), expect={"TransactionCanceledException"}
        )
    except ClientError as error:
        reasons = cast("Sequence[Reason]", error.response.get("CancellationReasons", []))
        blamed = {reason["Code"] for reason in reasons} - {"None"}
        for code in sorted(blamed - {"ConditionalCheckFailed", "TransactionConflict"}):
            text = f"TransactWriteItems was cancelled: {code}"
            raise (Unavailable if is_transient(code) else Misconfigured)("DynamoDB", text) from error
        if not blamed:
            raise Unavailable("DynamoDB", "TransactWriteItems was cancelled without a reason") from error
        return reasons
    return []
