"""A client of the dedup service: claims over one long-lived stream, everything else call by call (CONTRACTS § 2).

All claims that are waiting when a message is written go into it together: many concurrent questions, few messages.
Answers come in the order of the messages. Arguments are checked before they join others: a refused message would end
the stream, and with it what others ask on it. When the stream is lost, claims that were written may have taken place:
they fail as `Unavailable` and are never sent again. Those still waiting go to the next stream.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

import grpc
from google.protobuf.duration_pb2 import Duration
from pydantic import SecretStr

from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb
from adapters.grpc.pem import Tls
from adapters.grpc.wire import OPTIONS, credentials, failure, metadata, rpc
from domain.dedup import Scope, Verdict, check_keys, check_ttl, make_scope
from domain.errors import InterlockError, Invalid, Unavailable

MAX_KEYS: Final = 1000
MAX_CHARACTERS: Final = 1024 * 1024
"""Most that one message takes, in keys and in characters of them: at most 4 MiB."""

_DEPENDENCY: Final = "the dedup service"


class Found(NamedTuple):
    """Whether a key is known, and its value."""

    found: bool
    value: bytes
    degraded: bool


class KeyCount(NamedTuple):
    """How many keys a run has claimed."""

    keys: int
    degraded: bool


class _Question(NamedTuple):
    scope: Scope
    ttl: timedelta | None
    keys: Sequence[str]
    answer: asyncio.Future[Verdict]


class DedupClient:
    """One connection to the service, for one event loop. Connects at its first use, and again after a loss.

    Args:
        address: `host:port`.
        token: shown with every call.
        tls: what to check and show; None speaks plain text.
        deadline: seconds that each call may take.

    Raises:
        Misconfigured: the token cannot be sent.
    """

    def __init__(
        self, address: str, *, token: SecretStr | None = None, tls: Tls | None = None, deadline: float = 1.0
    ) -> None:
        self._channel = (
            grpc.aio.insecure_channel(address, options=OPTIONS)
            if tls is None
            else grpc.aio.secure_channel(address, credentials(tls), options=OPTIONS)
        )
        self._metadata = metadata(token)
        self._deadline = deadline
        self._waiting: deque[_Question] = deque()
        self._wake = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        """Give itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.aclose()

    async def check(self, scope: Scope, keys: Sequence[str], ttl: timedelta | None = None) -> Verdict:
        """Claim keys, and say which are new.

        Args:
            scope: service and run.
            keys: 1 to 10,000 keys.
            ttl: how long they are remembered at least; the service's default if None.

        Raises:
            Unavailable: no answer in time, or the stream was lost; the claim may have taken place.
            Misconfigured: the service does not let us in.
            Invalid: an argument breaks a rule of the service, and nothing was sent.
        """
        if self._closed:
            raise Unavailable(_DEPENDENCY, "this client is closed")
        _check(scope, keys)
        check_ttl(ttl)
        loop = asyncio.get_running_loop()
        questions = [_Question(scope, ttl, part, loop.create_future()) for part in _parts(keys)]
        self._waiting.extend(questions)
        self._wake.set()
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        try:
            async with asyncio.timeout(self._deadline):
                told = [await question.answer for question in questions]
        except TimeoutError:
            raise Unavailable(_DEPENDENCY, "no answer in time") from None
        finally:
            for question in questions:
                if not question.answer.cancel() and not question.answer.cancelled():
                    question.answer.exception()  # looked at, though another part's failure is what is raised
        if len(told) == 1:
            return told[0]
        return Verdict([new for part in told for new in part.is_new], any(part.degraded for part in told))

    async def exists(self, scope: Scope, key: str) -> Found:
        """Look whether a key is known, and claim nothing. Raises as `check` does."""
        _check(scope, (key,), "key")
        told = await self._call(
            "Exists", pb.ExistsRequest(service_code=scope.service_code, run_id=scope.run_id, key=key)
        )
        return Found(told.exists, b"", told.degraded)

    async def get(self, scope: Scope, key: str) -> Found:
        """Look up a key's value. Raises as `check` does."""
        _check(scope, (key,), "key")
        told = await self._call("Get", pb.GetRequest(service_code=scope.service_code, run_id=scope.run_id, key=key))
        return Found(told.found, told.value, told.degraded)

    async def put(self, scope: Scope, key: str, value: bytes, ttl: timedelta | None = None) -> bool:
        """Give a key a value, and say whether a store missed it. Raises as `check` does."""
        _check(scope, (key,), "key")
        check_ttl(ttl)
        request = pb.SetRequest(
            service_code=scope.service_code, run_id=scope.run_id, key=key, value=value, ttl=_duration(ttl)
        )
        degraded: bool = (await self._call("Set", request)).degraded
        return degraded

    async def count(self, scope: Scope) -> KeyCount:
        """Count the keys of a run. Raises as `check` does."""
        _check_scope(*scope)
        told = await self._call("RunStats", pb.RunStatsRequest(service_code=scope.service_code, run_id=scope.run_id))
        return KeyCount(told.keys, told.degraded)

    async def forget(self, scope: Scope) -> int:
        """Forget a run, and say how many keys it had. Raises as `check` does; repeating it is safe."""
        _check_scope(*scope)
        request = pb.ForgetRunRequest(service_code=scope.service_code, run_id=scope.run_id)
        forgotten: int = (await self._call("ForgetRun", request)).forgotten
        return forgotten

    async def aclose(self) -> None:
        """Let go of the connection: the stream is ended with what was asked on it, or cut off at the deadline."""
        self._closed = True
        self._wake.set()
        if self._asking is not None:
            await asyncio.wait([self._asking], timeout=self._deadline)
            self._asking.cancel()
            await asyncio.wait([self._asking])
        _fail(self._waiting, Unavailable(_DEPENDENCY, "this client is closed"))
        await self._channel.close()

    async def _call(self, name: str, request: Any) -> Any:
        if self._closed:
            raise Unavailable(_DEPENDENCY, "this client is closed")
        method = rpc(name)
        call = self._channel.unary_unary(method.path, method.serialize, method.deserialize)
        try:
            return await call(request, timeout=self._deadline, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            raise failure(error) from None
        except asyncio.CancelledError:
            _raise_if_ours()
            raise Unavailable(_DEPENDENCY, "it cancelled the call") from None

    async def _ask(self) -> None:
        """Keep a stream open from the first question on."""
        while not self._closed or self._waiting:
            await self._wake.wait()
            await self._ask_on_one_stream()

    async def _ask_on_one_stream(self) -> None:
        first = self._batch()
        if not first:
            self._wake.clear()
            return
        method = rpc("CheckStream")
        ask = self._channel.stream_stream(method.path, method.serialize, method.deserialize)
        stream: Any = ask(metadata=self._metadata)
        asked = deque([first])
        writing = asyncio.create_task(self._write(stream, asked))
        failed: InterlockError = Unavailable(_DEPENDENCY, "the stream ended")
        try:
            while (told := await stream.read()) is not grpc.aio.EOF:
                _answer(asked.popleft(), told)
        except grpc.aio.AioRpcError as error:
            failed = failure(error)
            if isinstance(failed, Invalid):
                # Whose mistake it was is unknown, and what others asked on the stream may have taken place.
                failed = Unavailable(_DEPENDENCY, f"it refused a message of the stream: {failed}")
        except asyncio.CancelledError:
            _raise_if_ours()
        finally:
            stream.cancel()
            if not self._closed:
                writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)  # a write fails as the stream does
            for questions in asked:
                _fail(questions, failed)

    async def _write(self, stream: Any, asked: deque[list[_Question]]) -> None:
        """Write the first of what is asked, then all that is waiting, again and again."""
        questions = asked[0]
        while True:
            scope, ttl = questions[0].scope, questions[0].ttl
            keys = [key for question in questions for key in question.keys]
            await stream.write(
                pb.CheckManyIfNewRequest(
                    service_code=scope.service_code, run_id=scope.run_id, keys=keys, ttl=_duration(ttl)
                )
            )
            while not (questions := self._batch()):
                if self._closed:
                    await stream.done_writing()
                    return
                self._wake.clear()
                await self._wake.wait()
            asked.append(questions)

    def _batch(self) -> list[_Question]:
        """Take questions off the queue that fit into one message; those that nobody waits for any more are dropped."""
        batch: list[_Question] = []
        keys = characters = 0
        while self._waiting:
            question = self._waiting[0]
            if not question.answer.done():
                size = sum(map(len, question.keys))
                if batch and (
                    (question.scope, question.ttl) != (batch[0].scope, batch[0].ttl)
                    or keys + len(question.keys) > MAX_KEYS
                    or characters + size > MAX_CHARACTERS
                ):
                    break
                batch.append(question)
                keys += len(question.keys)
                characters += size
            self._waiting.popleft()
        return batch


def _raise_if_ours() -> None:
    """Pass on a cancellation of our own task; grpc.aio also raises one where a stopping server cancels the call."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise  # noqa: PLE0704 - called while one is handled


def _check(scope: Scope, keys: Sequence[str], field: str = "keys") -> None:
    _check_scope(*scope)
    check_keys(keys, field)


_check_scope = lru_cache(maxsize=4096)(make_scope)


def _parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut keys into parts that fit into a message each."""
    start = characters = 0
    for index, key in enumerate(keys):
        if index > start and (index - start == MAX_KEYS or characters + len(key) > MAX_CHARACTERS):
            yield keys[start:index]
            start, characters = index, 0
        characters += len(key)
    yield keys[start:]


def _answer(questions: Sequence[_Question], told: pb.CheckManyIfNewResponse) -> None:
    is_new = list(told.is_new)
    start = 0
    for question in questions:
        end = start + len(question.keys)
        if not question.answer.done():
            question.answer.set_result(Verdict(is_new[start:end], told.degraded))
        start = end


def _fail(questions: Sequence[_Question], error: InterlockError) -> None:
    for question in questions:
        if not question.answer.done():
            question.answer.set_exception(error)


def _duration(ttl: timedelta | None) -> Duration | None:
    if ttl is None:
        return None
    duration = Duration()
    duration.FromTimedelta(ttl)
    return duration
