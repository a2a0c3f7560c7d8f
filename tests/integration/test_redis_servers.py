"""Real servers that restart, hang, fill up, want passwords or TLS, and hold what they should not."""

import asyncio
import datetime as dt
import ipaddress
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from adapters.memory.clock import ManualClock
from adapters.memory.key_store import MemoryKeyStore
from adapters.memory.metrics import MemoryMetrics
from adapters.redis.connection import Settings
from adapters.redis.key_store import RedisKeyStore, open_key_store
from adapters.redis.layout import names_of, value_name
from application.dedup import DedupCache, check_if_new, get
from domain.errors import Misconfigured, Unavailable
from tests.contracts.key_store import HOUR, PRICING
from tests.examples import START
from tests.redis_engines import server

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(url: str, **settings: object) -> AsyncIterator[RedisKeyStore]:
    store = open_key_store(url, settings=Settings(**settings))  # type: ignore[arg-type]
    try:
        yield store
    finally:
        await store.aclose()


async def test_fc02_a_thousand_calls_on_four_connections_are_all_told_seen(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
        async with opened(redis_url, connections=4, in_flight=8, client_name="burst") as store:
            assert await store.claim(PRICING, ["k"], HOUR) == [True]
            async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
                asked = [tasks.create_task(store.claim(PRICING, ["k"], HOUR)) for _ in range(1000)]
            assert [task.result() for task in asked] == [[False]] * 1000
            assert len([one for one in client.client_list() if one["name"] == "burst"]) == 4


async def test_r208_a_server_that_is_killed_and_comes_back_under_load() -> None:
    """No call fails; degraded answers are marked and counted; within two seconds answers are normal again."""
    loop = asyncio.get_running_loop()
    with server("appendonly yes", "appendfsync always") as one:
        async with opened(one.url) as store:
            metrics = MemoryMetrics()
            cache = DedupCache(store, None, metrics, deadline=0.5)
            known = [f"known{number}" for number in range(100)]
            assert (await check_if_new(cache, PRICING, known, HOUR)).is_new == [True] * 100
            answers: list[tuple[float, bool, bool]] = []
            is_over = False

            async def ask(number: int) -> None:
                turn = 0
                while not is_over:
                    turn += 1
                    key = known[turn % 100]
                    told = await check_if_new(cache, PRICING, [key, f"{number}:{turn}"], HOUR)
                    assert told.is_new[1]  # never seen before, whatever happened
                    assert told.degraded or not told.is_new[0]  # known, unless the answer says it could not look
                    answers.append((loop.time(), told.is_new[0], told.degraded))
                    await asyncio.sleep(0.002)

            async with asyncio.TaskGroup() as tasks:
                for number in range(20):
                    tasks.create_task(ask(number))
                await asyncio.sleep(0.2)
                await asyncio.to_thread(one.kill)
                killed = loop.time()
                await asyncio.sleep(1.5)
                await asyncio.to_thread(one.start)
                back = loop.time()
                await asyncio.sleep(3)
                is_over = True
    down = [degraded for at, _, degraded in answers if killed + 0.1 < at < back - 0.2]
    later = [(is_new, degraded) for at, is_new, degraded in answers if at > back + 2]
    assert len(down) > 100
    assert all(down)
    assert len(later) > 100
    assert set(later) == {(False, False)}
    counted = sum(degraded for _, _, degraded in answers)
    assert metrics.total("dedup_degraded_total", call="check") == counted
    assert metrics.total("dedup_target_failures_total", target="primary") == counted


async def test_r208_a_primary_that_comes_back_empty_forgets_nothing_that_the_secondary_knows() -> None:
    with server() as one:
        async with opened(one.url) as store:
            cache = DedupCache(store, MemoryKeyStore(ManualClock(START)), MemoryMetrics())
            keys = [f"k{number}" for number in range(1000)]
            assert (await check_if_new(cache, PRICING, keys, HOUR)).is_new == [True] * 1000
            one.kill()
            told = await check_if_new(cache, PRICING, [*keys, "other"], HOUR)
            assert told == ([False] * 1000 + [True], True)
            one.start()
            await _until_it_answers(store)
            assert await store.count(PRICING) == 0
            assert await check_if_new(cache, PRICING, [*keys, "other"], HOUR) == ([False] * 1001, False)


async def test_r208_a_server_that_hangs_delays_nobody_past_the_deadline() -> None:
    loop = asyncio.get_running_loop()
    with server() as one:
        async with opened(one.url, stall=0.5) as store:
            cache = DedupCache(store, None, MemoryMetrics(), deadline=0.2)
            await check_if_new(cache, PRICING, ["k"], HOUR)
            assert one.process is not None
            one.process.send_signal(signal.SIGSTOP)
            for number in range(6):
                start = loop.time()
                assert await check_if_new(cache, PRICING, [f"k{number}"], HOUR) == ([True], True)
                assert loop.time() - start < 0.3
            one.process.send_signal(signal.SIGCONT)
            await _until_it_answers(store)
            assert await check_if_new(cache, PRICING, ["k"], HOUR) == ([False], False)


async def test_a_server_that_forgot_the_scripts_is_told_again(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
        async with opened(redis_url) as store:
            for number in range(3):
                client.script_flush()
                assert await store.claim(PRICING, [f"k{number}"], HOUR) == [True]
                assert await store.exist(PRICING, [f"k{number}"]) == [True]


async def test_fc09_unreadable_data_is_degraded_and_not_a_miss(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
        async with opened(redis_url) as store:
            names = names_of(PRICING, 256)
            entry = next(iter(_entry("k")))
            client.lpush(value_name(names, entry), b"\x00\xff random")
            for number in range(256):
                client.set(f"{names.bucket}{number}", b"\x00\xff random")
            metrics = MemoryMetrics()
            cache = DedupCache(store, None, metrics)
            assert await get(cache, PRICING, "k") == (None, True)
            assert await check_if_new(cache, PRICING, ["k"], HOUR) == ([True], True)
            assert metrics.total("dedup_degraded_total") == 2
            assert metrics.total("dedup_target_failures_total", reason="unavailable") == 2
            with pytest.raises(Unavailable, match="it answered WRONGTYPE"):
                await store.get(PRICING, "k")
            await store.forget(PRICING)  # also of what cannot be read
            assert await store.claim(PRICING, ["k"], HOUR) == [True]


async def test_one_bad_bucket_leaves_no_other_without_an_expiry(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
        async with opened(redis_url) as store:
            names = names_of(PRICING, 256)
            client.set(f"{names.bucket}7", b"odd", ex=60)
            with pytest.raises(Unavailable):
                await store.claim(PRICING, [f"k{number}" for number in range(2000)], HOUR)
            assert client.dbsize() > 200
            assert all(client.pttl(name) > 0 for name in client.scan_iter())


async def test_a_full_server_is_unavailable_and_recovers() -> None:
    with server() as one:
        async with opened(one.url) as store:
            assert await store.claim(PRICING, ["a"], HOUR) == [True]
            with one.client() as client:
                client.config_set("maxmemory", 1)
                with pytest.raises(Unavailable, match="it answered OOM"):
                    await store.claim(PRICING, ["b"], HOUR)
                with pytest.raises(Unavailable, match="it answered OOM"):
                    await store.put(PRICING, "b", b"v", HOUR)
                assert await store.exist(PRICING, ["a", "b"]) == [True, False]
                client.config_set("maxmemory", 0)
            assert await store.claim(PRICING, ["a", "b"], HOUR) == [False, True]


async def test_users_passwords_databases_and_the_name_of_the_client() -> None:
    rights = "~dedup:* -@all +@read +@write +@scripting +@connection +time"  # as docs/reference/dedup-redis.md says
    with server("user default off", "user admin on >admin ~* +@all", f"user me on >s3cr:t@/ {rights}") as one:
        host = f"127.0.0.1:{one.port}"
        async with opened(f"redis://me:s3cr%3At%40%2F@{host}/5", client_name="crawler") as store:
            assert await store.claim(PRICING, ["k"], HOUR) == [True]
            await store.put(PRICING, "v", b"v", HOUR)
            assert await store.claim(PRICING, ["v"], HOUR) == [False]
            assert await store.get(PRICING, "v") == b"v"
            assert (await store.count(PRICING), await store.forget(PRICING)) == (2, 2)
            await store.claim(PRICING, ["k"], HOUR)
            with one.client(username="admin", password="admin") as client:
                assert {one["name"] for one in client.client_list()} >= {"crawler"}
                assert client.info("keyspace").keys() == {"db5"}
        for url, code in (
            (f"redis://me:wrong-s3cret@{host}", "WRONGPASS"),
            (f"redis://{host}", "NOAUTH"),
            (f"redis://me:s3cr%3At%40%2F@{host}/999", "ERR"),
        ):
            async with opened(url) as store:
                with pytest.raises(Unavailable, match=f"it answered {code}") as error:
                    await store.claim(PRICING, ["k"], HOUR)
                assert "cr" not in str(error.value)


async def test_tls_is_checked(tmp_path: Path, redis_url: str) -> None:
    certificate = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    port = int(redis_url.rpartition(":")[2].partition("/")[0])
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_pump(reader, inner_writer))
            tasks.create_task(_pump(inner_reader, writer))

    front = await asyncio.start_server(forward, "127.0.0.1", 0, ssl=context)
    host = f"127.0.0.1:{front.sockets[0].getsockname()[1]}"
    async with front:
        async with opened(f"rediss://{host}?ssl_ca_certs={certificate}") as store:
            keys = [f"k{number}" for number in range(5000)]
            assert await store.claim(PRICING, keys, HOUR) == [True] * 5000
            assert await store.exist(PRICING, keys) == [True] * 5000
        async with opened(f"rediss://{host}") as store:
            with pytest.raises(Unavailable, match="SSLCertVerificationError"):
                await store.claim(PRICING, ["k"], HOUR)


async def test_ping_says_whether_it_answers(redis_url: str) -> None:
    async with opened(redis_url) as store:
        await store.ping()
    with pytest.raises(Unavailable):
        await store.ping()


def test_buckets_are_checked() -> None:
    for count in (0, 65_537):
        with pytest.raises(Misconfigured):
            open_key_store("redis://cache", buckets=count)


def test_a_single_server_does_without_redis_py() -> None:
    script = (
        "import sys, adapters.redis.key_store as k; k.open_key_store('redis://cache'); print('redis' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "False"


async def test_another_count_of_buckets_is_another_layout(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
    first, second = open_key_store(redis_url), open_key_store(redis_url, buckets=16)
    try:
        assert await first.claim(PRICING, ["k"], HOUR) == [True]
        assert await second.claim(PRICING, ["k"], HOUR) == [True]
        assert await first.forget(PRICING) == 1
        assert await second.exist(PRICING, ["k"]) == [True]
    finally:
        await first.aclose()
        await second.aclose()


async def _until_it_answers(store: RedisKeyStore) -> None:
    async with asyncio.timeout(2):
        while True:
            try:
                return await store.ping()
            except Unavailable:
                await asyncio.sleep(0.02)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # either side may go first; what was sent before is all there is
    finally:
        writer.transport.abort()


def _entry(key: str) -> list[int | bytes]:
    from adapters.redis.layout import entries

    return list(entries(PRICING, [key], 256)[0])


def _certificate(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "interlock test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return file
