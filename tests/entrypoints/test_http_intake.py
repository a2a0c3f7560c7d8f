"""The front door over HTTP: 202 once durable, the body byte for byte, and nobody without a token (R-501, FC-35)."""

import base64
import gzip
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.sqlite.database import Database
from adapters.sqlite.message_queue import QUEUES
from domain.errors import Unavailable
from domain.intake import MAX_MESSAGE_BYTES, decode, to_body
from domain.messages import Received
from entrypoints.container import Container
from entrypoints.groups.access import AuthSettings
from entrypoints.groups.lifecycle import LifecycleSettings
from entrypoints.settings import Settings
from tests.entrypoints.http_api import Api, an_api, check_problem
from tests.examples import START, an_envelope
from tests.issuer import AUDIENCE, ISSUER, a_token, key_set, rsa_jwk

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
NASTY = (
    '{"note":"salt & pepper","q":"a=1&DelaySeconds=900","p":"1+1","pct":"100%41","u":"日本😀","nl":"a\\nb",'
    '"vtl":"$util.x #set($y=1)"}'
)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api(max_body_bytes=8 * MAX_MESSAGE_BYTES) as api:
        yield api


async def post(api: Api, body: bytes | str, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await api.client.post("/v1/intake", content=body, headers={**JSON, **named})


async def kept(api: Api) -> list[Received]:
    return await api.intake.receive(10, 0)


@pytest.mark.parametrize(
    "body",
    [
        NASTY,
        f"  [{NASTY} ,\t{an_envelope().to_json()}]\r\n",
        an_envelope(data="x" * 200_000).to_json(),
        "a=1&Action=SendMessage&MessageBody=x",
        "not JSON at all",
        " ",
        '{"half": "\\ud800"}',
        "{" * 1000,
        "Action=DeleteQueue&" * 10_000,
    ],
    ids=lambda body: body[:20],
)
async def test_fc35_the_queue_holds_the_same_bytes_that_were_posted(api: Api, body: str) -> None:
    response = await post(api, body)
    assert response.status_code == 202, response.text
    (message,) = await kept(api)
    assert message.body == body
    assert response.json() == {"message_ids": [message.group_id]}


@pytest.mark.parametrize(
    "media_type", ["application/cloudevents+json; charset=utf-8", "application/cloudevents-batch+json"]
)
async def test_each_media_type_of_events_is_taken(api: Api, media_type: str) -> None:
    assert (await post(api, NASTY, Content_Type=media_type)).status_code == 202


async def test_a_compressed_body_is_kept_as_its_bytes_and_read_as_its_events(api: Api) -> None:
    packed = gzip.compress(f"[{an_envelope('e1').to_json()},{an_envelope('e2').to_json()}]".encode())
    assert (await post(api, packed, Content_Encoding="gzip")).status_code == 202
    (message,) = await kept(api)
    assert message.body == to_body(packed)
    assert [event.id for event in decode(message.body, START).events] == ["e1", "e2"]


@given(
    st.binary(min_size=1, max_size=300)
    | st.text(min_size=1, max_size=100).map(lambda text: text.encode("utf-8", "replace"))
)
def test_fc35_whatever_bytes_are_posted_they_can_be_had_again(raw: bytes) -> None:
    body = to_body(raw)
    assert body.encode() == raw or base64.b64decode(body, validate=True) == raw


@pytest.mark.parametrize("headers", [{"Content_Type": "text/plain"}, {"Content_Type": ""}, {"Content_Encoding": "br"},
    {"Content_Type": "application/json; charset=latin-1"}, {"Content_Encoding": "gzip, gzip"},
    {"Content_Type": "application/x-www-form-urlencoded"}])  # fmt: skip
async def test_other_kinds_of_bodies_are_415(api: Api, headers: dict[str, str]) -> None:
    check_problem(await post(api, NASTY, **headers), 415)
    assert await kept(api) == []


async def test_an_empty_body_is_400(api: Api) -> None:
    problem = check_problem(await post(api, b""), 400)
    assert problem["detail"] == "the body is empty; send an event"


@pytest.mark.parametrize("size", [MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES + 1, 3 * MAX_MESSAGE_BYTES])
async def test_fc33_a_body_over_what_the_queue_takes_is_413_before_anything_is_sent(api: Api, size: int) -> None:
    response = await post(api, b"x" * size)
    if size > MAX_MESSAGE_BYTES:
        assert check_problem(response, 413)["limit"] == MAX_MESSAGE_BYTES
        assert await kept(api) == []
    else:
        assert response.status_code == 202


async def test_fc33_bytes_that_grow_over_the_limit_as_text_are_413(api: Api) -> None:
    problem = check_problem(await post(api, b"\xff" * (MAX_MESSAGE_BYTES - 100)), 413)
    assert problem["size"] > problem["limit"] == MAX_MESSAGE_BYTES


async def test_a_smaller_limit_of_the_server_holds_here_too() -> None:
    async with an_api(max_body_bytes=2000) as api:
        assert check_problem(await post(api, b"x" * 2001), 413)["limit"] == 2000


async def test_no_token_a_bad_one_and_one_without_the_scope(api: Api) -> None:
    for authorization, status in (
        (None, 401),
        ("Bearer nobody", 401),
        (f"Bearer {api.access.issue('view', 'operate')}", 403),
        (f"Bearer {api.access.issue('ingest')}", 202),
    ):
        client = api.client_again()
        client.headers.pop("Authorization")
        headers = {} if authorization is None else {"Authorization": authorization}
        response = await client.post("/v1/intake", content=NASTY, headers={**JSON, **headers})
        assert response.status_code == status
    assert len(await kept(api)) == 1


async def test_a_queue_that_does_not_answer_is_503_and_nothing_is_promised() -> None:
    class Away:
        async def send(self, _: Sequence[str], /) -> list[str]:
            raise Unavailable("SQS", "no answer")

        async def receive(self, limit: int, wait_seconds: float, /) -> list[Received]:
            raise NotImplementedError

        async def delete(self, messages: Sequence[Received], /) -> list[Received]:
            raise NotImplementedError

        async def release(self, messages: Sequence[Received], /) -> None:
            raise NotImplementedError

    async with an_api(intake=Away()) as api:
        problem = check_problem(await post(api, NASTY), 503)
        assert problem["detail"] == "SQS is unavailable; send the request again"


async def test_r501_the_message_is_on_the_disk_when_the_answer_comes_and_jwts_get_in(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set(rsa_jwk()))
    auth = AuthSettings(jwks_url=keys.as_uri(), jwt_issuer=ISSUER, jwt_audience=AUDIENCE)
    container = Container(settings=Settings(data_dir=tmp_path / "data", auth=auth))
    soon = int(datetime.now(UTC).timestamp()) + 60
    transport = httpx.ASGITransport(container.app())
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://interlock") as client:
            answers = [
                await client.post(
                    "/v1/intake",
                    content=NASTY,
                    headers={**JSON, "Authorization": f"Bearer {a_token(exp=soon, scope=scope)}"},
                )
                for scope in ("view", "ingest")
            ]
        assert [answer.status_code for answer in answers] == [403, 202]
        (message_id,) = answers[1].json()["message_ids"]
        database = Database(tmp_path / "data" / "queues.db", QUEUES)
        rows = await database.read(lambda c: c.execute("SELECT group_id, body FROM messages").fetchall())
        await database.aclose()
        assert rows == [(message_id, NASTY)]
    finally:
        await container.intake_engine().aclose()
        await container.engine().aclose()


async def test_the_path_is_left_out_where_there_is_no_queue() -> None:
    topic = LifecycleSettings(topic_arn="arn:aws:sns:us-east-1:000000000000:lifecycle.fifo")
    container = Container(settings=Settings(engine="aws", lifecycle=topic))
    paths = container.app().openapi()["paths"]
    assert ("/v1/intake" in paths, "/v1/events" in paths) == (False, True)
