"""The client of the dedup service: few messages, own deadlines, and never a claim twice (ports/key_store.py)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import grpc
import pytest

from adapters.grpc.client import MAX_KEYS, DedupClient
from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb
from adapters.grpc.key_store import GrpcKeyStore
from adapters.grpc.wire import rpc
from domain.dedup import Scope, Verdict, make_scope
from domain.errors import Invalid, Unavailable
from tests.contracts.key_store import HOUR, PRICING
from tests.entrypoints.dedup_server import DOWN, WatchedKeys, served
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]


async def test_concurrent_questions_share_messages() -> None:
    store = WatchedKeys()
    async with served(store) as server, DedupClient(f"127.0.0.1:{server.port}") as client:
        await client.check(PRICING, ["first"])
        before = store.claims
        told = await asyncio.gather(*(client.check(PRICING, [str(number)]) for number in range(500)))
        assert told == [Verdict([True], degraded=False)] * 500
        assert store.claims - before <= 3
        told = await asyncio.gather(*(client.check(PRICING, ["same"]) for _ in range(100)))
        assert sum(verdict.is_new[0] for verdict in told) == 1


async def test_questions_of_other_runs_and_spans_go_into_messages_of_their_own() -> None:
    async with served(WatchedKeys()) as server, DedupClient(f"127.0.0.1:{server.port}") as client:
        scopes = [make_scope("pricing", f"run-{number % 7}") for number in range(70)]
        told = await asyncio.gather(
            *(client.check(scope, ["a"], HOUR if number % 2 else None) for number, scope in enumerate(scopes))
        )
        assert sum(verdict.is_new[0] for verdict in told) == 7


async def test_many_and_large_keys_are_cut_into_messages() -> None:
    store = WatchedKeys()
    async with served(store) as server, DedupClient(f"127.0.0.1:{server.port}", deadline=20) as client:
        keys = [str(number) for number in range(2 * MAX_KEYS + 1)]
        assert (await client.check(PRICING, [*keys, *keys])).is_new == [True] * len(keys) + [False] * len(keys)
        large = [f"{number}{'é' * 32_000}" for number in range(200)]
        assert (await client.check(PRICING, large)).is_new == [True] * 200


async def test_text_that_utf_8_cannot_hold_is_refused_alone() -> None:
    async with served(WatchedKeys()) as server, DedupClient(f"127.0.0.1:{server.port}") as client:
        good = asyncio.create_task(client.check(PRICING, ["a"]))
        with pytest.raises(Invalid, match=r"keys\[1\]"):
            await client.check(PRICING, ["b", "\ud800"])
        assert (await good).is_new == [True]


@pytest.mark.parametrize(
    ("scope", "keys", "ttl", "place"),
    [
        (PRICING, [""], None, "keys[0]"),
        (PRICING, ["x", "k" * 65_537], None, "keys[1]"),
        (PRICING, [], None, "keys"),
        (PRICING, ["k"] * 10_001, None, "keys"),
        (Scope("BAD", "run-1"), ["x"], None, "service_code"),
        (Scope("pricing", ""), ["x"], None, "run_id"),
        (PRICING, ["x"], timedelta(days=31), "ttl"),
        (PRICING, ["x"], timedelta(), "ttl"),
    ],
)
async def test_a_bad_argument_is_its_callers_alone(
    scope: Scope, keys: list[str], ttl: timedelta | None, place: str
) -> None:
    """Those who share its message and its stream are answered, and their keys are claimed once."""
    async with served(WatchedKeys()) as server, DedupClient(f"127.0.0.1:{server.port}") as client:
        before = [asyncio.create_task(client.check(PRICING, [f"a{number}"])) for number in range(20)]
        culprit = asyncio.create_task(client.check(scope, keys, ttl))
        after = [asyncio.create_task(client.check(PRICING, [f"b{number}"])) for number in range(20)]
        with pytest.raises(Invalid) as refused:
            await culprit
        assert refused.value.place == place
        assert await asyncio.gather(*before, *after) == [Verdict([True], degraded=False)] * 40
        assert server.metrics.total("grpc_streams_refused_total") == 0


async def test_a_stream_that_is_refused_is_nobodys_mistake(peer_at: "tuple[Peer, int]") -> None:
    """A server with stricter rules: whose message it was is not known, and claims may have taken place."""
    peer, port = peer_at
    peer.answering, peer.code = False, grpc.StatusCode.INVALID_ARGUMENT
    async with DedupClient(f"127.0.0.1:{port}", deadline=5) as client:
        told = await asyncio.gather(
            *(client.check(make_scope("pricing", f"run-{number}"), ["a"]) for number in range(5)),
            return_exceptions=True,
        )
        assert [type(error) for error in told] == [Unavailable] * 5


async def test_no_answer_in_time_is_unavailable_and_later_answers_are_not_mixed_up() -> None:
    store = WatchedKeys()
    store.gate.clear()
    async with served(store, deadline=30) as server, DedupClient(f"127.0.0.1:{server.port}", deadline=0.3) as client:
        with pytest.raises(Unavailable, match="in time"):
            await client.check(PRICING, ["a", "b"])
        store.gate.set()
        assert (await client.check(PRICING, ["c", "a", "b", "d"])).is_new == [True, False, False, True]


async def test_a_cancelled_question_takes_nobody_elses_answer() -> None:
    async with served(WatchedKeys()) as server, DedupClient(f"127.0.0.1:{server.port}", deadline=10) as client:
        for number in range(200):
            keys = [f"{number}-{part}" for part in range(number % 5 + 1)]
            given_up = asyncio.create_task(client.check(PRICING, keys))
            kept = asyncio.create_task(client.check(PRICING, ["seen", *keys]))
            for _ in range(number % 9):
                await asyncio.sleep(0)
            given_up.cancel()
            assert len((await kept).is_new) == len(keys) + 1


async def test_degraded_answers_what_is_seen_is_seen() -> None:
    primary, secondary = WatchedKeys(), WatchedKeys()
    async with served(primary, secondary) as server, DedupClient(f"127.0.0.1:{server.port}") as client:
        store = GrpcKeyStore(client)
        assert await store.claim(PRICING, ["a"], HOUR) == [True]
        primary.error = DOWN
        assert await store.claim(PRICING, ["a"], HOUR) == [False]
        assert await store.exist(PRICING, ["a"]) == [True]
        with pytest.raises(Unavailable):
            await store.claim(PRICING, ["a", "b"], HOUR)
        for call in (
            store.exist(PRICING, ["a", "z"]),
            store.get(PRICING, "z"),
            store.count(PRICING),
            store.forget(PRICING),
        ):
            with pytest.raises(Unavailable):
                await call
        await store.put(PRICING, "v", b"value", HOUR)
        assert await store.get(PRICING, "v") == b"value"


class Peer:
    """A server that takes messages of checks and answers as a test says.

    Attributes:
        keys: of each message that arrived.
        answering: whether it answers; else it ends each stream after its first message.
        code: what it ends them with.
    """

    def __init__(self) -> None:
        self.keys: list[list[str]] = []
        self.answering = True
        self.code = grpc.StatusCode.UNAVAILABLE

    async def check_stream(self, requests: AsyncIterator[pb.CheckManyIfNewRequest], context: Any) -> None:
        async for request in requests:
            self.keys.append(list(request.keys))
            if not self.answering:
                await context.abort(self.code, "gone")
            await context.write(pb.CheckManyIfNewResponse(is_new=[True] * len(request.keys)))


@pytest.fixture
async def peer_at() -> AsyncIterator[tuple[Peer, int]]:
    peer, server, method = Peer(), grpc.aio.server(), rpc("CheckStream")
    handler = grpc.stream_stream_rpc_method_handler(
        peer.check_stream, pb.CheckManyIfNewRequest.FromString, pb.CheckManyIfNewResponse.SerializeToString
    )
    service = method.path.split("/")[1]
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"CheckStream": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield peer, port
    finally:
        await server.stop(1)


async def test_a_claim_whose_reply_was_lost_is_never_sent_again(peer_at: tuple[Peer, int]) -> None:
    peer, port = peer_at
    async with DedupClient(f"127.0.0.1:{port}", deadline=5) as client:
        assert (await client.check(PRICING, ["a"])).is_new == [True]
        peer.answering = False
        with pytest.raises(Unavailable):
            await client.check(PRICING, ["lost"])
        peer.answering = True
        assert (await client.check(PRICING, ["b"])).is_new == [True]
    assert peer.keys == [["a"], ["lost"], ["b"]]


async def test_it_reconnects_within_two_seconds_of_the_servers_return() -> None:
    store = WatchedKeys()
    async with served(store) as server:
        client = DedupClient(f"127.0.0.1:{server.port}")
        assert (await client.check(PRICING, ["a"])).is_new == [True]
        port = server.port
    with pytest.raises(Unavailable):
        await client.check(PRICING, ["a"])
    async with served(store, port=port):
        start = asyncio.get_running_loop().time()
        told: list[bool] = []

        async def answered() -> None:
            while not told:
                try:
                    told.extend((await client.check(PRICING, ["a"])).is_new)
                except Unavailable:
                    await asyncio.sleep(0.05)

        async with asyncio.timeout(5):
            await answered()
        assert told == [False]
        assert asyncio.get_running_loop().time() - start < 2
        await client.aclose()


async def test_a_server_that_is_far_away_is_reached() -> None:
    """TCP, TLS and the first word of the server are several round trips: more than a tenth of a second, far away."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async with served(WatchedKeys()) as server:

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.4)
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.port)
            await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

        async with await asyncio.start_server(forward, "127.0.0.1", 0) as front:
            port = front.sockets[0].getsockname()[1]
            async with DedupClient(f"127.0.0.1:{port}", deadline=10) as client:
                assert await client.check(PRICING, ["a"]) == Verdict([True], degraded=False)


async def test_nobody_waits_for_a_client_that_is_closed() -> None:
    store = WatchedKeys()
    store.gate.clear()
    async with served(store, deadline=30, grace=0.1) as server:
        client = DedupClient(f"127.0.0.1:{server.port}", deadline=0.5)
        asked = asyncio.create_task(client.check(PRICING, ["a"]))
        await until(lambda: store.in_work == 1)
        await client.aclose()
        with pytest.raises(Unavailable):
            await asked
        with pytest.raises(Unavailable, match="closed"):
            await client.check(PRICING, ["b"])
        with pytest.raises(Unavailable, match="closed"):
            await client.count(PRICING)
