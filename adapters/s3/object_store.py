"""Objects in an S3 bucket (ports/object_store.py)."""

from typing import Final

from botocore.exceptions import ClientError

from adapters.aws.clients import Aws
from adapters.aws.errors import error_code
from domain.errors import Unavailable
from domain.objects import ObjectPage, StoredObject, check_object_name, check_prefix

_EXISTS: Final = "PreconditionFailed"
_CONFLICT: Final = "ConditionalRequestConflict"
_MISSING: Final = "NoSuchKey"


class S3ObjectStore:
    """A bucket.

    Args:
        aws: the clients.
        bucket: its name.
    """

    def __init__(self, aws: Aws, bucket: str) -> None:
        self._s3 = aws.s3
        self._bucket = bucket

    async def put(self, name: str, data: bytes, /) -> bool:
        """Store an object unless there is one of this name: one conditional request.

        Raises:
            Unavailable: no answer, throttled, or another writer of the same name was under way.
            Misconfigured: the bucket does not exist or may not be written.
        """
        check_object_name(name)
        try:
            await self._s3.call(
                lambda s3: s3.put_object(Bucket=self._bucket, Key=name, Body=data, IfNoneMatch="*"),
                expect=(_EXISTS, _CONFLICT),
            )
        except ClientError as error:
            if error_code(error) == _EXISTS:
                return False
            raise Unavailable("S3", "another writer of the same object was under way") from error
        return True

    async def get(self, name: str, /) -> bytes | None:
        """Give an object whole, or None where there is none."""
        check_object_name(name)
        try:
            return await self._s3.call(
                lambda s3: s3.get_object(Bucket=self._bucket, Key=name)["Body"].read(), expect=(_MISSING,)
            )
        except ClientError:
            return None

    async def list(self, prefix: str, /, *, after: str = "", limit: int = 1000) -> ObjectPage:
        """Give a page of names; see the port. S3 itself gives them in the order of their bytes."""
        check_prefix(prefix)
        answer = await self._s3.call(
            lambda s3: s3.list_objects_v2(Bucket=self._bucket, Prefix=prefix, StartAfter=after, MaxKeys=limit)
        )
        objects = [StoredObject(one.get("Key", ""), one.get("Size", 0)) for one in answer.get("Contents", [])]
        return ObjectPage(objects, objects[-1].name if objects and answer["IsTruncated"] else None)

    async def delete(self, name: str, /) -> None:
        """Delete an object; where there is none, nothing happens."""
        check_object_name(name)
        await self._s3.call(lambda s3: s3.delete_object(Bucket=self._bucket, Key=name))
