"""Connections to Temporal: TLS, API keys, and what becomes of every answer (R-305, FC-18)."""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, NamedTuple

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from temporalio.api.workflowservice.v1 import (
    GetSystemInfoResponse,
    StartWorkflowExecutionRequest,
    StartWorkflowExecutionResponse,
)

from adapters.memory.clock import ManualClock
from adapters.memory.id_source import CountingIds
from adapters.memory.metrics import MemoryMetrics
from adapters.memory.start_ledger import MemoryLedger
from adapters.memory.workflow_catalog import MemoryCatalog
from adapters.temporal.connection import Target, Temporal, connect, translate
from adapters.temporal.workflow_starter import TemporalStarter
from application.catalog import CatalogReader
from application.route import Router
from domain.errors import InterlockError, Invalid, Misconfigured, TooLarge, Unavailable
from domain.routing import Offer, Started
from tests.contracts.workflow_starter import WORKFLOW, a_request
from tests.entrypoints.http_api import ListedReports
from tests.examples import START, an_envelope
from tests.redis_engines import free_port

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("one_loop")]

Answer = StartWorkflowExecutionResponse | tuple[grpc.StatusCode, str]

SERVICE = "temporal.api.workflowservice.v1.WorkflowService"


@dataclass
class FakeServer:
    """Answers starts as it is told; it speaks gRPC, so that the SDK's own client is under test."""

    answers: list[Answer] = field(default_factory=list)
    requests: list[StartWorkflowExecutionRequest] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    refuse_key: str = "wrong"

    def service(self, details: Any) -> Any:
        handle: Callable[..., Any] | None = {
            f"/{SERVICE}/GetSystemInfo": self.info,
            f"/{SERVICE}/StartWorkflowExecution": self.start,
        }.get(details.method)
        return None if handle is None else grpc.unary_unary_rpc_method_handler(handle)

    async def info(self, _: bytes, context: Any) -> bytes:
        key = dict(context.invocation_metadata()).get("authorization", "")
        self.keys.append(key)
        if key == f"Bearer {self.refuse_key}":
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the key opens nothing")
        return GetSystemInfoResponse().SerializeToString()

    async def start(self, request: bytes, context: Any) -> bytes:
        self.requests.append(StartWorkflowExecutionRequest.FromString(request))
        answer = self.answers.pop(0) if self.answers else StartWorkflowExecutionResponse(run_id="run-1", started=True)
        if isinstance(answer, tuple):
            await context.abort(*answer)
        assert isinstance(answer, StartWorkflowExecutionResponse)
        return answer.SerializeToString()


@asynccontextmanager
async def listening(fake: FakeServer, credentials: grpc.ServerCredentials | None = None) -> AsyncIterator[str]:
    """Serve a fake, and give its address."""
    server = grpc.aio.server()

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details: Any) -> Any:
            return fake.service(handler_call_details)

    server.add_generic_rpc_handlers((Handler(),))
    address = f"127.0.0.1:{free_port()}"
    if credentials is None:
        server.add_insecure_port(address)
    else:
        server.add_secure_port(address, credentials)
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)


class Pem(NamedTuple):
    certificate: bytes
    key: bytes


@pytest.fixture(scope="module")
def pem() -> Pem:
    """A certificate that vouches for itself, for 127.0.0.1, as a server and as a client."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "interlock test")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pem(certificate.public_bytes(serialization.Encoding.PEM), private)


async def start(target: Target, seconds: float = 10) -> Started:
    return await TemporalStarter(Temporal(target)).start(a_request(), seconds)


# ---------------------------------------------------------------------------------------------------------------- TLS
async def test_an_api_key_goes_over_tls_that_is_checked(pem: Pem) -> None:
    fake = FakeServer()
    async with listening(fake, grpc.ssl_server_credentials([(pem.key, pem.certificate)])) as address:
        assert await start(Target(address, api_key="key-1", server_ca=pem.certificate)) == Started("run-1", is_new=True)
        assert fake.keys == ["Bearer key-1"]
        for target in (Target(address, api_key="key-1"), Target(address, tls=False), Target(address)):
            with pytest.raises(Unavailable):
                await start(target, 3)
        assert fake.keys == ["Bearer key-1"]


async def test_a_server_that_asks_for_a_certificate_gets_ours(pem: Pem) -> None:
    fake = FakeServer()
    mutual = grpc.ssl_server_credentials([(pem.key, pem.certificate)], pem.certificate, require_client_auth=True)
    async with listening(fake, mutual) as address:
        ours = Target(address, server_ca=pem.certificate, certificate=pem.certificate, key=pem.key)
        assert (await start(ours)).is_new
        with pytest.raises(Unavailable):
            await start(Target(address, server_ca=pem.certificate), 3)
        assert len(fake.requests) == 1


def test_tls_is_what_is_set_and_else_what_keys_and_certificates_ask_for() -> None:
    assert Target("a:1").security is None
    assert Target("a:1", tls=True).security is True
    assert Target("a:1", tls=False, server_ca=b"x").security is False


async def test_a_key_that_opens_nothing_is_no_outage(pem: Pem) -> None:
    async with listening(FakeServer(), grpc.ssl_server_credentials([(pem.key, pem.certificate)])) as address:
        target = Target(address, api_key="wrong", server_ca=pem.certificate)
        for attempt in (start(target), connect(target, lazy=False)):
            with pytest.raises(Misconfigured, match="UNAUTHENTICATED: the key opens nothing") as refused:
                await attempt
            assert "wrong" not in str(refused.value)


# ------------------------------------------------------------------------------------------------------------ answers
KINDS: dict[str, type[InterlockError]] = {
    "CANCELLED": Unavailable,
    "UNKNOWN": Unavailable,
    "INVALID_ARGUMENT": Invalid,
    "DEADLINE_EXCEEDED": Unavailable,
    "NOT_FOUND": Misconfigured,
    "PERMISSION_DENIED": Misconfigured,
    "RESOURCE_EXHAUSTED": Unavailable,
    "FAILED_PRECONDITION": Misconfigured,
    "ABORTED": Unavailable,
    "OUT_OF_RANGE": Invalid,
    "UNIMPLEMENTED": Misconfigured,
    "INTERNAL": Unavailable,
    "UNAVAILABLE": Unavailable,
    "DATA_LOSS": Misconfigured,
    "UNAUTHENTICATED": Misconfigured,
}


async def test_r305_every_status_is_asked_once_and_translated() -> None:
    assert set(KINDS) == {code.name for code in grpc.StatusCode} - {"OK", "ALREADY_EXISTS"}
    fake = FakeServer()
    async with listening(fake) as address:
        starter = TemporalStarter(Temporal(Target(address)))
        for name, kind in KINDS.items():
            fake.answers = [(grpc.StatusCode[name], f"about {name}")]
            with pytest.raises(InterlockError) as refused:
                await starter.start(a_request(), 10)
            assert type(refused.value) is kind, name
            assert f"{name}: about {name}" in str(refused.value)
    assert len(fake.requests) == len(KINDS), "the SDK's own retries are off"


async def test_r304_already_started_is_success_also_as_a_raw_error_without_details() -> None:
    fake = FakeServer([(grpc.StatusCode.ALREADY_EXISTS, "Workflow execution is already running.")])
    async with listening(fake) as address:
        assert await start(Target(address)) == Started("", is_new=False)


async def test_fc18_a_size_that_the_server_refuses_is_permanent_with_its_size() -> None:
    text = "received message larger than max (10248653 vs. 4194304)"
    fake = FakeServer([(grpc.StatusCode.RESOURCE_EXHAUSTED, text)])
    async with listening(fake) as address:
        with pytest.raises(TooLarge, match=r"10248653 vs\. 4194304") as refused:
            await start(Target(address))
    assert (refused.value.size, refused.value.limit) == (10248653, 4194304)
    assert len(fake.requests) == 1


async def test_fc18_a_rate_limit_backs_off_and_succeeds_within_the_bound() -> None:
    limit: Answer = (grpc.StatusCode.RESOURCE_EXHAUSTED, "namespace rate limit")
    fake = FakeServer([limit, limit])
    clock, metrics, catalog = ManualClock(START), MemoryMetrics(), MemoryCatalog()
    await catalog.publish(Offer("w", (WORKFLOW,), ("events",), START + dt.timedelta(hours=1)))
    async with listening(fake) as address:
        router = Router(
            TemporalStarter(Temporal(Target(address))),
            CatalogReader(catalog, clock, metrics),
            MemoryLedger(),
            ListedReports({}),
            clock,
            CountingIds(),
            metrics,
            lambda: 1.0,
        )
        event = an_envelope("e1", type="ReportRunCompletedEvent", time=START.isoformat())
        result = await router.route(event, lambda: 30.0)
    assert (result.outcome, result.attempts, result.run_id) == ("started", 3, "run-1")
    assert clock.now() > START
    ids = {request.request_id for request in fake.requests}
    assert len(ids) == 1, "by one id the server knows its own first try"


async def test_a_server_that_does_not_answer_is_given_up_in_time() -> None:
    fake = FakeServer()

    async def never(request: bytes, context: Any) -> bytes:  # noqa: ARG001 - the shape of a call
        await asyncio.Event().wait()
        return b""

    fake.start = never  # type: ignore[method-assign]
    async with listening(fake) as address:
        with pytest.raises(Unavailable, match=r"no answer within 0\.3 s|Timeout|CANCELLED|DEADLINE"):
            await start(Target(address), 0.3)


async def test_the_request_is_what_the_contract_says() -> None:
    fake = FakeServer()
    request = a_request(start_id="start-1")
    async with listening(fake) as address:
        await TemporalStarter(Temporal(Target(address, "ns-1"))).start(request, 10)
    (sent,) = fake.requests
    assert (sent.namespace, sent.workflow_id, sent.request_id) == ("ns-1", request.workflow_id, "start-1")
    assert (sent.workflow_type.name, sent.task_queue.name) == (WORKFLOW, "contract")
    allow_duplicate_failed_only, fail = 2, 1
    assert sent.workflow_id_reuse_policy == allow_duplicate_failed_only
    assert sent.workflow_id_conflict_policy == fail
    (argument,) = sent.input.payloads
    assert argument.metadata["encoding"] == b"json/plain"
    assert argument.data.decode() == request.envelope.to_json()
    memo = {name: payload.data.decode() for name, payload in sent.memo.fields.items()}
    assert memo == {"interlock.event_id": f'"{request.event_id}"', "interlock.source": '"/flights/nyc"'}


def test_texts_of_the_sdk_that_are_no_status_count_as_no_connection() -> None:
    error = translate(RuntimeError("Failed client connect: Server connection error:\n tonic::transport::Error"))
    assert isinstance(error, Unavailable)
    assert str(error) == (
        "Temporal is unavailable: UNAVAILABLE: no connection: "
        "Failed client connect: Server connection error: tonic::transport::Error"
    )
