"""What every call passes: who asks, how long it may take, how it ends, and that it is counted until its very end.

grpc.aio's own `stop` waits for what the core sees, not for handlers that are still in their clean-up (FC-11): so calls
in hand are counted here, and stores are closed when none is left.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from pydantic import SecretStr

from domain.access import Scope, require
from domain.errors import Invalid, Unauthenticated, Unavailable
from entrypoints.grpc.errors import refusal
from ports.access import Access
from ports.metrics import Metrics

if TYPE_CHECKING:
    Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

Answer = Callable[[Any, float | None], Awaitable[Message]]
"""A method: takes a message and the seconds that are left for it, None where there is no limit.

One that streams checks its message when it is called, and begins to work when what it gave is awaited.
"""

Read = Callable[[bytes], Message]
"""Reads a method's message from its bytes."""

IN_WORK: Final = 32
"""Requests of one stream that are in work at a time; more are read when answers have gone out."""

SHARE_OF_DEADLINE: Final = 0.9
"""Of a caller's time, what a call may use: a degraded answer must still arrive in time."""

JUDGED_SECONDS: Final = 30.0
"""How long a stream may go on before its token is judged again: it may have been revoked, or be over."""

_BEARER: Final = "bearer "


class Method(NamedTuple):
    """One method of a service, and the scope that its callers' tokens need."""

    answer: Answer
    scope: Scope


class Service(NamedTuple):
    """A service: its descriptor, and its methods by name. Methods that stream answer each message alike."""

    descriptor: ServiceDescriptor
    methods: Mapping[str, Method]


class Calls:
    """All calls of a process."""

    def __init__(self, metrics: Metrics, access: Access | None) -> None:
        """Take no call yet.

        Args:
            metrics: where durations go.
            access: the judge of tokens; None lets everybody in.
        """
        self._metrics = metrics
        self._access = access
        self._in_hand = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        self._readers: set[asyncio.Task[None]] = set()

    def handler(self, service: Service) -> grpc.GenericRpcHandler:
        """Put a service behind these calls."""
        name = service.descriptor.full_name
        made = {
            method.name: self._method(f"{name}/{method.name}", method, service.methods[method.name])
            for method in service.descriptor.methods
        }
        return grpc.method_handlers_generic_handler(name, made)

    def begin_to_stop(self) -> None:
        """Refuse new calls, and let streams answer what they have read, and end."""
        self._stopping = True
        for reader in self._readers:
            reader.cancel()

    async def drained(self) -> None:
        """Wait until no call is in hand."""
        await self._idle.wait()

    def _method(self, name: str, described: MethodDescriptor, method: Method) -> "grpc.RpcMethodHandler[Any, Any]":
        read = GetMessageClass(described.input_type).FromString
        write = GetMessageClass(described.output_type).SerializeToString
        # Bytes are read in the handlers: gRPC itself would end a call with bytes that are no message as UNKNOWN.
        if described.client_streaming:
            return grpc.stream_stream_rpc_method_handler(self._stream(name, method, read), None, write)
        return grpc.unary_unary_rpc_method_handler(self._unary(name, method, read), None, write)

    def _unary(self, name: str, method: Method, read: Read) -> Callable[..., Awaitable[Message]]:
        answer, scope, access, metrics = method.answer, method.scope, self._access, self._metrics

        async def handle(raw: bytes, context: "Context") -> Message:
            started = perf_counter()
            code = "OK"
            self._enter()
            try:
                self._refuse_while_stopping()
                if access is not None:
                    await _admit(access, context, scope)
                return await answer(_message(raw, read), _seconds_left(context))
            except BaseException as error:
                if _is_callers(error):
                    code = "CANCELLED"
                    raise
                refused = refusal(error, name)
                code = refused.code.name
                return await context.abort(refused.code, refused.text, refused.metadata)
            finally:
                metrics.observe("grpc_call_seconds", perf_counter() - started, method=name, code=code)
                self._leave()

        return handle

    def _stream(self, name: str, method: Method, read: Read) -> Callable[..., Awaitable[None]]:
        async def handle(_: AsyncIterator[bytes], context: "Context") -> None:
            self._enter()
            try:
                self._refuse_while_stopping()
                await self._answer_in_order(name, method, read, context)
                self._refuse_while_stopping()
            except BaseException as error:
                if _is_callers(error):
                    raise
                refused = refusal(error, name)
                self._metrics.count("grpc_streams_refused_total", method=name, code=refused.code.name)
                await context.abort(refused.code, refused.text, refused.metadata)
            finally:
                self._leave()

        return handle

    async def _answer_in_order(self, name: str, method: Method, read: Read, context: "Context") -> None:
        """Answer each request of a stream in its turn; the first that fails ends the stream after those before it.

        Requests are checked in order before they are worked on: nothing behind a bad one is begun.
        """
        judge = _Judge(self._access, context, method.scope)
        await judge.judge()
        room = asyncio.Semaphore(IN_WORK)
        work: deque[asyncio.Future[Message]] = deque()
        more = asyncio.Event()

        def begin(answer: Awaitable[Message], started: float) -> asyncio.Future[Message]:
            def note(task: asyncio.Future[Message]) -> None:
                if not task.cancelled() and task.exception() is None:
                    self._metrics.observe("grpc_call_seconds", perf_counter() - started, method=name, code="OK")

            # The task is the answer's own: one that is cancelled before its first step would never await another's.
            task = asyncio.ensure_future(answer)
            task.add_done_callback(note)
            return task

        async def read_all() -> None:
            while True:
                await room.acquire()
                raw = await context.read()
                if raw is grpc.aio.EOF:
                    return
                started = perf_counter()
                await judge.judge()
                work.append(begin(method.answer(_message(raw, read), _seconds_left(context)), started))
                more.set()

        async with self._reading(read_all()) as reader:
            reader.add_done_callback(lambda _: more.set())
            try:
                while True:
                    await more.wait()
                    more.clear()
                    while work:
                        await context.write(await work[0])
                        work.popleft()
                        room.release()
                    if reader.done():
                        break
            finally:
                reader.cancel()  # first: what it began from now on, nobody would end
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)
        if not reader.cancelled():
            reader.result()

    @asynccontextmanager
    async def _reading(self, read: Awaitable[None]) -> AsyncIterator[asyncio.Task[None]]:
        reader = asyncio.ensure_future(read)
        assert isinstance(reader, asyncio.Task)  # noqa: S101 - ensure_future makes a task of a coroutine
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            reader.cancel()
            await asyncio.wait([reader])

    def _refuse_while_stopping(self) -> None:
        if self._stopping:
            raise Unavailable("the server", "it is stopping")

    def _enter(self) -> None:
        self._in_hand += 1
        self._idle.clear()

    def _leave(self) -> None:
        self._in_hand -= 1
        if not self._in_hand:
            self._idle.set()


class _Judge:
    """Judges a stream's token at its start and every now and then."""

    def __init__(self, access: Access | None, context: "Context", scope: Scope) -> None:
        self._access = access
        self._context = context
        self._scope: Scope = scope
        self._until = 0.0

    async def judge(self) -> None:
        """Let the caller in, or not.

        Raises:
            Unauthenticated, Forbidden, Unavailable: not.
        """
        now = time.monotonic()
        if self._access is not None and now >= self._until:
            await _admit(self._access, self._context, self._scope)
            self._until = now + JUDGED_SECONDS


def _message(raw: bytes, read: Read) -> Message:
    """Read a message.

    Raises:
        Invalid: the bytes are none.
    """
    try:
        return read(raw)
    except DecodeError:
        raise Invalid("message", "its bytes are no message of the method's type") from None


def _seconds_left(context: "Context") -> float | None:
    left: float | None = context.time_remaining()
    return None if left is None else left * SHARE_OF_DEADLINE


def _is_callers(error: BaseException) -> bool:
    """Say whether a call ended because its caller went away, or the server's patience is over: nobody listens then.

    A cancellation that came from within, such as a backend's, is a failure like any other; grpc.aio would leave the
    caller waiting for ever (FC-11). Only in the first case was our own task asked to end.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return not isinstance(error, Exception)


async def _admit(access: Access, context: "Context", scope: Scope) -> None:
    """Hold the caller to a token with the scope.

    Raises:
        Unauthenticated, Forbidden: there is none.
        Unavailable: what tokens are judged by cannot be read.
    """
    shown = [value for name, value in context.invocation_metadata() or () if name == "authorization"]
    token = str(shown[0]) if len(shown) == 1 else ""
    if not token[: len(_BEARER)].lower() == _BEARER:
        raise Unauthenticated(token_shown=bool(shown))
    caller = await access.identify(SecretStr(token[len(_BEARER) :].strip()), datetime.now(UTC))
    require(caller, scope)
