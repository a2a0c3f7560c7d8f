"""Every error of boto3 becomes one of ours, by what the caller can do (ports promise no other)."""

import asyncio
from typing import Any

import pytest
from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.clients import Aws, together
from adapters.aws.errors import translate
from domain.errors import InterlockError, Misconfigured, Unavailable


def answered(code: str, status: int = 400) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": "secret payload"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(response, "PutItem")


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (answered("ThrottlingException"), Unavailable),
        (answered("ProvisionedThroughputExceededException"), Unavailable),
        (answered("Whatever", 503), Unavailable),
        (answered("", 500), Unavailable),
        (answered("ExpiredTokenException"), Unavailable),
        (answered("AccessDeniedException"), Misconfigured),
        (answered("UnrecognizedClientException"), Misconfigured),
        (answered("ValidationException"), Misconfigured),
        (answered("ResourceNotFoundException"), Misconfigured),
        (exceptions.EndpointConnectionError(endpoint_url="http://x"), Unavailable),
        (exceptions.ConnectTimeoutError(endpoint_url="http://x"), Unavailable),
        (exceptions.ReadTimeoutError(endpoint_url="http://x"), Unavailable),
        (exceptions.ConnectionClosedError(endpoint_url="http://x"), Unavailable),
        (exceptions.NoCredentialsError(), Misconfigured),
        (exceptions.NoRegionError(), Misconfigured),
        (exceptions.ParamValidationError(report="secret payload"), Misconfigured),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value)[:60],
)
def test_errors_are_told_apart_and_hold_no_payload(error: BotoCoreError | ClientError, ours: type) -> None:
    found = translate("DynamoDB", error)
    assert type(found) is ours
    assert "DynamoDB" in str(found)
    assert "secret" not in str(found)


@pytest.mark.anyio
async def test_a_client_that_cannot_be_made_is_a_matter_of_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    aws = Aws()
    with pytest.raises(Misconfigured, match="AWS_REGION"):
        await aws.sqs.call(lambda sqs: sqs.list_queues())
    aws.close()


@pytest.mark.anyio
async def test_of_calls_side_by_side_the_first_error_comes_alone() -> None:
    never = asyncio.Event()
    stopped: list[bool] = []

    async def waits() -> None:
        try:
            await never.wait()
        finally:
            stopped.append(True)

    async def fails() -> None:
        await asyncio.sleep(0)
        raise Unavailable("DynamoDB", "throttled")

    with pytest.raises(InterlockError) as caught:
        await together([waits(), fails()])
    assert isinstance(caught.value, Unavailable)
    assert stopped == [True]
