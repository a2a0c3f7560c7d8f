"""boto3 clients, made once at first use, and the one hop from async code to its blocking calls."""

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import error_code, translate

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient

LONGEST_POLL: Final = 20
LONGEST_FUNCTION: Final = 900


class _Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)
T = TypeVar("T")


class Service(Generic[C]):
    """One AWS service: a client that is made by the first call, and calls that do not block the event loop."""

    def __init__(self, name: str, make: Callable[[], C], pool: ThreadPoolExecutor) -> None:
        self._name = name
        self._make = make
        self._pool = pool
        self._lock = threading.Lock()
        self._client: C | None = None

    async def call(self, use: Callable[[C], T], *, expect: Collection[str] = ()) -> T:
        """Use the client in a thread.

        A call that is cancelled goes on in its thread; what it did is done.

        Args:
            use: is given the client and makes one call.
            expect: error codes that the caller handles: they come as boto3's `ClientError`.

        Raises:
            Unavailable: throttled, no answer, or a fault of the service; boto3 has retried.
            Misconfigured: the call cannot succeed as things are set up.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: use(self.client()))
        except ClientError as error:
            if error_code(error) in expect:
                raise
            raise translate(self._name, error) from error
        except BotoCoreError as error:
            raise translate(self._name, error) from error

    def client(self) -> C:
        """Give the client, for blocking use."""
        with self._lock:
            if self._client is None:
                self._client = self._make()
            return self._client

    def close(self) -> None:
        """Close the client's connections, if it was ever made."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None


class Aws:
    """The AWS services that adapters use, over one bounded pool of threads.

    Address, region and credentials come from where every AWS SDK takes them (`AWS_ENDPOINT_URL`,
    `AWS_ENDPOINT_URL_SQS`, `AWS_REGION`, profiles, roles) unless given here.

    Args:
        endpoint_url: address of all services.
        region: name of the AWS region.
        workers: how many calls may run at a time, and connections a client keeps.
        connect_timeout: seconds.
        read_timeout: seconds; receiving from SQS waits up to 20 s more, and calling a function 15 minutes.
        attempts: how often boto3 sends a request at all, in its standard retry mode.
    """

    def __init__(
        self,
        *,
        endpoint_url: str | None = None,
        region: str | None = None,
        workers: int = 16,
        connect_timeout: float = 2.0,
        read_timeout: float = 5.0,
        attempts: int = 3,
    ) -> None:
        self._endpoint_url = endpoint_url
        self._region = region
        self._workers = workers
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._attempts = attempts
        self._pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="aws")
        self._making = threading.Lock()

    @cached_property
    def dynamodb(self) -> "Service[DynamoDBClient]":
        """DynamoDB, low-level."""
        return Service("DynamoDB", lambda: self._make("dynamodb"), self._pool)

    @cached_property
    def events(self) -> "Service[EventBridgeClient]":
        """EventBridge."""
        return Service("EventBridge", lambda: self._make("events"), self._pool)

    @cached_property
    def functions(self) -> "Service[LambdaClient]":
        """Lambda."""
        return Service("Lambda", lambda: self._make("lambda", LONGEST_FUNCTION), self._pool)

    @cached_property
    def s3(self) -> "Service[S3Client]":
        """S3."""
        return Service("S3", lambda: self._make("s3"), self._pool)

    @cached_property
    def sns(self) -> "Service[SNSClient]":
        """SNS."""
        return Service("SNS", lambda: self._make("sns"), self._pool)

    @cached_property
    def sqs(self) -> "Service[SQSClient]":
        """SQS."""
        return Service("SQS", lambda: self._make("sqs", LONGEST_POLL), self._pool)

    def close(self) -> None:
        """Wait for the calls that run, then close the connections."""
        self._pool.shutdown()
        for service in (self.dynamodb, self.events, self.functions, self.s3, self.sns, self.sqs):
            service.close()

    def _make(self, service: str, patience: float = 0.0) -> Any:
        config = Config(
            connect_timeout=self._connect_timeout,
            read_timeout=self._read_timeout + patience,
            max_pool_connections=self._workers,
            # Without these two a call costs a sixth more CPU (G18): botocore checks again what our types and checks
            # have seen to, and puts its own user agent together anew for each request.
            parameter_validation=False,
            user_agent=f"Boto3/{boto3.__version__} interlock",
            retries={"mode": "standard", "total_max_attempts": self._attempts},
        )
        with self._making:  # making a client from boto3's default session is not thread-safe
            make: Callable[..., Any] = boto3.client
            return make(service, endpoint_url=self._endpoint_url, region_name=self._region, config=config)


async def together(calls: Collection[Coroutine[Any, Any, T]]) -> list[T]:
    """Await calls side by side and give their answers in order.

    Raises:
        Exception: the first that a call raised; the others are cancelled.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [task.result() for task in tasks]
