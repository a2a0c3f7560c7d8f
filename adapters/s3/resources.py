"""The bucket of the intake, made closed to the public."""

from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import error_code, translate
from domain.errors import Misconfigured

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_DEFAULT_REGION: Final = "us-east-1"


def create_bucket(s3: "S3Client", name: str) -> None:
    """Make a bucket in the client's region, and close it to the public; one that is ours already stays.

    Blocks.

    Raises:
        Misconfigured: the name is somebody else's, or the bucket may not be made.
        Unavailable: S3 did not answer.
    """
    region = s3.meta.region_name
    try:
        if region == _DEFAULT_REGION:
            s3.create_bucket(Bucket=name)
        else:
            s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})  # type: ignore[typeddict-item] # any region
    except ClientError as error:
        if error_code(error) == "BucketAlreadyExists":
            raise Misconfigured(f"bucket {name}", "is somebody else's; choose another name") from error
        if error_code(error) != "BucketAlreadyOwnedByYou":
            raise translate("S3", error) from error
    except BotoCoreError as error:
        raise translate("S3", error) from error
    try:
        s3.put_public_access_block(
            Bucket=name,
            PublicAccessBlockConfiguration={
                "BlockPublicAcls": True,
                "IgnorePublicAcls": True,
                "BlockPublicPolicy": True,
                "RestrictPublicBuckets": True,
            },
        )
    except (BotoCoreError, ClientError) as error:
        raise translate("S3", error) from error
