"""Large content in a bucket (ports/payload_store.py)."""

from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from adapters.aws.clients import Aws
from adapters.aws.errors import error_code

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# What a conditional put answers where the key is taken, or is being taken by another writer of the same content.
_TAKEN: Final = {"PreconditionFailed", "ConditionalRequestConflict"}


class S3PayloadStore:
    """An object for each key.

    Args:
        aws: the clients.
        bucket: its name.
    """

    def __init__(self, aws: Aws, bucket: str) -> None:
        self._s3 = aws.s3
        self._bucket = bucket

    async def put(self, key: str, content: bytes, /) -> None:
        """Keep content, unless it is there: a condition (If-None-Match) keeps a copy from becoming a new version.

        | object | If-None-Match: * | put |
        |---|---|---|
        | none | true | happens |
        | there | false | refused: it is the same content |
        | being put by another | | refused: whoever puts it answers for it, so it is put again, without the condition |
        """
        try:
            await self._s3.call(
                lambda s3: s3.put_object(Bucket=self._bucket, Key=key, Body=content, IfNoneMatch="*"), expect=_TAKEN
            )
        except ClientError as error:
            if error_code(error) == "ConditionalRequestConflict":
                await self._s3.call(lambda s3: s3.put_object(Bucket=self._bucket, Key=key, Body=content))

    async def get(self, key: str, /) -> bytes | None:
        """Give content."""

        def read(s3: "S3Client") -> bytes:
            return s3.get_object(Bucket=self._bucket, Key=key)["Body"].read()

        try:
            return await self._s3.call(read, expect={"NoSuchKey"})
        except ClientError:
            return None
