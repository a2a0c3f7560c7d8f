"""Each rule of CONTRACTS § 1 and § 4, broken one by one: the status, the problem, and the place."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.envelope import MAX_BATCH, MAX_EVENT_BYTES
from domain.json_reader import MAX_DEPTH
from tests.entrypoints.http_api import Api, an_api, check_problem, pointers
from tests.examples import an_envelope

pytestmark = pytest.mark.anyio

GOOD = an_envelope("e1").attributes()
MOVES = "/v1/events/e1/transitions"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api() as running:
        yield running


def changed(**more: Any) -> bytes:
    return json.dumps({**GOOD, **more}).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


def with_data(text: str) -> bytes:
    """Give an event with a piece of JSON text as its data."""
    return changed(data="MARK").replace(b'"MARK"', text.encode("utf-8", "surrogatepass"))


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


RULES = {
    "specversion missing": (without("specversion"), "/specversion"),
    "specversion 0.3": (changed(specversion="0.3"), "/specversion"),
    "specversion a number": (changed(specversion=1.0), "/specversion"),
    "id missing": (without("id"), "/id"),
    "id empty": (changed(id=""), "/id"),
    "id of 129": (changed(id="i" * 129), "/id"),
    "id a number": (changed(id=7), "/id"),
    "id with a control character": (changed(id="a\x00b"), "/id"),
    "source missing": (without("source"), "/source"),
    "source empty": (changed(source=""), "/source"),
    "source of 257": (changed(source="s" * 257), "/source"),
    "source no URI reference": (changed(source="a b"), "/source"),
    "source with a broken escape": (changed(source="/a%2"), "/source"),
    "type missing": (without("type"), "/type"),
    "type empty": (changed(type=""), "/type"),
    "type of 129": (changed(type="t" * 129), "/type"),
    "subject missing": (without("subject"), "/subject"),
    "subject null": (changed(subject=None), "/subject"),
    "subject empty": (changed(subject=""), "/subject"),
    "subject of 257": (changed(subject="s" * 257), "/subject"),
    "time without an offset": (changed(time="2026-01-01T10:00:00"), "/time"),
    "time of a date alone": (changed(time="2026-01-01"), "/time"),
    "time a number (FC-58)": (changed(time=1654646400), "/time"),
    "time a number in text (FC-58)": (changed(time="1654646400"), "/time"),
    "time before 1970": (changed(time="1969-12-31T23:59:59Z"), "/time"),
    "time after 2200": (changed(time="2201-01-01T00:00:00Z"), "/time"),
    "time more than 24 h ahead": (changed(time="2026-01-02T12:00:00.000001Z"), "/time"),
    "time of no calendar": (changed(time="2026-02-30T00:00:00Z"), "/time"),
    "extension in upper case": (changed(Trace="1"), "/Trace"),
    "extension with a slash and a tilde": (changed(**{"a/b~c": 1}), "/a~1b~0c"),
    "no object": (b"5", ""),
    "null": (b"null", ""),
    "a batch where one event is announced": (b"[]", ""),
}

SYNTAX = {
    "nothing": (b"", ""),
    "cut": (b'{"id":', "/id"),
    "more behind it": (changed() + b"x", ""),
    "single quotes": (b"{'id': 1}", ""),
    "byte-order mark": (b"\xef\xbb\xbf" + changed(), ""),
    "not UTF-8": (b'{"id": "\xff"}', ""),
    "UTF-16": (changed().decode().encode("utf-16"), ""),
    "duplicate attribute": (changed()[:-1] + b', "id": "other"}', "/id"),
    "duplicate key deep inside": (with_data('{"items": [1, 2, 3, {"price": 1, "price": 2}]}'), "/data/items/3/price"),
    "NaN": (with_data('{"items": [1, 2, 3, {"price": NaN}]}'), "/data/items/3/price"),
    "Infinity": (with_data("[-Infinity]"), "/data/0"),
    "beyond a double": (with_data('{"a.b": {"c/d": 1e400}}'), "/data/a.b/c~1d"),
    "more digits than a double holds": (with_data("[0, 9007199254740993]"), "/data/1"),
    "39 digits (FC-28)": (with_data('{"n": 123456789012345678901234567890123456789}'), "/data/n"),
    "half a surrogate pair": (with_data('["\\ud800"]'), "/data/0"),
    "half a surrogate pair, raw": (with_data('["\ud800"]'), ""),
    "too deep": (with_data(nested(MAX_DEPTH)), "/data" + "/0" * (MAX_DEPTH - 1)),
    "very much too deep": (with_data(nested(100_000)), "/data" + "/0" * (MAX_DEPTH - 1)),
    "a control character": (with_data('"a\nb"'), "/data"),
    "a leading zero": (with_data("[01]"), "/data"),
}


async def post_event(api: Api, raw: bytes, media_type: str = "application/cloudevents+json") -> httpx.Response:
    return await api.client.post("/v1/events", content=raw, headers={"Content-Type": media_type})


@pytest.mark.parametrize("rule", RULES)
async def test_an_event_that_breaks_a_rule_is_refused_with_the_place(api: Api, rule: str) -> None:
    raw, pointer = RULES[rule]
    problem = check_problem(await post_event(api, raw), 422)
    assert pointers(problem) == [pointer]
    assert len(api.queue) == 0


@pytest.mark.parametrize("fault", SYNTAX)
async def test_text_that_is_not_strict_json_is_refused_with_the_place(api: Api, fault: str) -> None:
    raw, pointer = SYNTAX[fault]
    problem = check_problem(await post_event(api, raw), 400)
    assert pointers(problem) == [pointer]
    assert len(api.queue) == 0


@pytest.mark.parametrize("fault", SYNTAX)
async def test_one_malformed_event_makes_a_batch_malformed(api: Api, fault: str) -> None:
    """There is no telling where the next event begins."""
    raw, _ = SYNTAX[fault]
    response = await post_event(api, b"[" + changed() + b"," + raw + b"]", "application/cloudevents-batch+json")
    (pointer,) = pointers(check_problem(response, 400))
    assert pointer == "" or pointer.startswith("/1")
    assert len(api.queue) == 0


async def test_what_is_just_allowed_is_taken(api: Api) -> None:
    for raw in (
        changed(id="i" * 128, source="s" * 256, type="t" * 128, subject="😀" * 256),
        changed(time="2026-01-02T12:00:00Z"),
        changed(time="1970-01-01T00:00:00Z", traceid="1", x0=None),
        with_data(nested(MAX_DEPTH - 1)),
        changed(data="x" * (MAX_EVENT_BYTES - len(changed(data="")))),
    ):
        assert (await post_event(api, raw)).status_code == 202


@pytest.mark.parametrize(
    ("raw", "pointer"),
    [(b"{}", ""), (b"[]", ""), (b"[" + b",".join([b"0"] * (MAX_BATCH + 1)) + b"]", "")],
    ids=["no array", "empty", "1,001 events"],
)
async def test_a_batch_that_breaks_a_rule_is_refused(api: Api, raw: bytes, pointer: str) -> None:
    problem = check_problem(await post_event(api, raw, "application/cloudevents-batch+json"), 422)
    assert pointers(problem) == [pointer]


async def test_an_event_over_256_kib_is_refused_with_size_and_limit(api: Api) -> None:
    raw = changed(data="x" * MAX_EVENT_BYTES)
    problem = check_problem(await post_event(api, raw), 413)
    assert (problem["size"], problem["limit"]) == (len(raw), MAX_EVENT_BYTES)


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("path", ["/v1/events", MOVES])
async def test_no_more_of_a_body_is_read_than_the_limit(path: str, *, announced: bool) -> None:
    taken = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(100):
            taken += 1
            yield b" " * 1000

    async with an_api(max_body_bytes=5000) as api:
        headers = {"Content-Type": "application/json"} | ({"Content-Length": "100000"} if announced else {})
        problem = check_problem(await api.client.post(path, content=chunks(), headers=headers), 413)
        assert problem["limit"] == 5000
        assert taken == (0 if announced else 6)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": ""},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/xml"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
@pytest.mark.parametrize("path", ["/v1/events", MOVES])
async def test_other_media_types_are_refused(api: Api, headers: dict[str, str], path: str) -> None:
    problem = check_problem(await api.client.post(path, content=changed(), headers=headers), 415)
    assert "application/json" in problem["detail"] or "encoding" in problem["detail"]


@pytest.mark.parametrize("media_type", ["application/cloudevents+json", "application/cloudevents-batch+json"])
async def test_a_move_is_no_event(api: Api, media_type: str) -> None:
    response = await api.client.post(MOVES, content=b'{"to": "open"}', headers={"Content-Type": media_type})
    check_problem(response, 415)


MOVE_RULES = {
    "to missing": (b"{}", 422, "/to"),
    "to null": (b'{"to": null}', 422, "/to"),
    "to a number": (b'{"to": 1}', 422, "/to"),
    "to empty": (b'{"to": ""}', 422, "/to"),
    "to of no state": (b'{"to": "opened"}', 422, "/to"),
    "to too long": (json.dumps({"to": "o" * 64}).encode(), 422, "/to"),
    "expected_state of no state": (b'{"to": "open", "expected_state": "new"}', 422, "/expected_state"),
    "expected_state a list": (b'{"to": "open", "expected_state": []}', 422, "/expected_state"),
    "reason a number": (b'{"to": "open", "reason": 1}', 422, "/reason"),
    "reason too long": (json.dumps({"to": "open", "reason": "r" * 2001}).encode(), 422, "/reason"),
    "a field too many": (b'{"to": "open", "actor": "root"}', 422, "/actor"),
    "a field too many, with a slash": (b'{"to": "open", "a/b": 1}', 422, "/a~1b"),
    "no object": (b'["open"]', 422, ""),
    "text": (b'"open"', 422, ""),
    "nothing": (b"", 400, ""),
    "cut": (b'{"to": "open"', 400, ""),
    "twice": (b'{"to": "open", "to": "closed"}', 400, "/to"),
    "half a surrogate pair": (b'{"to": "open", "reason": "\\udc00"}', 400, "/reason"),
    "NaN": (b'{"to": NaN}', 400, "/to"),
}


@pytest.mark.parametrize("rule", MOVE_RULES)
async def test_a_move_that_breaks_a_rule_is_refused_with_the_place(api: Api, rule: str) -> None:
    await api.ingest("e1")
    raw, status, pointer = MOVE_RULES[rule]
    response = await api.client.post(MOVES, content=raw, headers={"Content-Type": "application/json"})
    assert pointers(check_problem(response, status)) == [pointer]
    assert (await api.client.get("/v1/events/e1")).json()["state"] == "to_review"


@pytest.mark.parametrize("key", [b"", b"k" * 256, b"a\tb", b"caf\xe9", b"\x7f"])
async def test_a_key_that_breaks_a_rule_is_refused(api: Api, key: bytes) -> None:
    await api.ingest("e1")
    response = await api.client.post(MOVES, json={"to": "open"}, headers=[(b"Idempotency-Key", key)])
    assert pointers(check_problem(response, 422)) == ["/Idempotency-Key"]


async def test_two_keys_are_refused(api: Api) -> None:
    await api.ingest("e1")
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    response = await api.client.post(MOVES, json={"to": "open"}, headers=headers)
    assert pointers(check_problem(response, 422)) == ["/Idempotency-Key"]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("", "/state"),
        ("limit=5", "/state"),
        ("state=", "/state"),
        ("state=opened", "/state"),
        ("state=open&state=open", "/state"),
        ("entity=", "/entity"),
        ("entity=" + "e" * 257, "/entity"),
        ("entity=%FF", ""),
        ("entity=e&from=yesterday", "/from"),
        ("entity=e&from=2026-01-01T00:00:00", "/from"),
        ("entity=e&from=2026-01-01T00:00:00+01:00", "/from"),
        ("entity=e&to=1654646400", "/to"),
        ("entity=e&to=", "/to"),
        ("entity=e&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "/from"),
        ("entity=e&order=up", "/order"),
        ("entity=e&order=ASC", "/order"),
        ("entity=e&limit=0", "/limit"),
        ("entity=e&limit=501", "/limit"),
        ("entity=e&limit=-1", "/limit"),
        ("entity=e&limit=1.0", "/limit"),
        ("entity=e&limit=", "/limit"),
        ("entity=e&limit=%D9%A5", "/limit"),
        ("entity=e&limit=" + "9" * 5000, "/limit"),
        ("entity=e&offset=5", "/offset"),
        ("entity=e&a/b=5", "/a~1b"),
        ("entity=e&State=open", "/State"),
    ],
)
async def test_a_list_that_breaks_a_rule_is_refused(api: Api, query: str, pointer: str) -> None:
    request = api.client.build_request("GET", "/v1/events")
    request.url = httpx.URL("http://interlock/v1/events", query=query.encode())
    assert pointers(check_problem(await api.client.send(request), 422)) == [pointer]


async def test_a_cursor_of_another_query_is_refused(api: Api) -> None:
    await api.ingest("e1", "e2")
    cursor = (await api.client.get("/v1/events?state=to_review&limit=1")).json()["next_cursor"]
    for query in (f"state=open&cursor={cursor}", f"state=to_review&order=desc&cursor={cursor}"):
        assert pointers(check_problem(await api.client.get(f"/v1/events?{query}"), 400)) == ["/cursor"]
    for damaged in ("", "x", "%00", cursor[:-3], cursor + "A", "W10", "A" * 5000):
        response = await api.client.get(f"/v1/events?state=to_review&cursor={damaged}")
        assert pointers(check_problem(response, 400)) == ["/cursor"]


@pytest.mark.parametrize("path", ["/v1/events/e1", "/v1/events/e1/history"])
async def test_single_reads_take_no_parameters(api: Api, path: str) -> None:
    assert pointers(check_problem(await api.client.get(path + "?fields=state"), 422)) == ["/fields"]


@pytest.mark.parametrize("path", ["/v1/events", MOVES])
async def test_posts_take_no_parameters(api: Api, path: str) -> None:
    response = await api.client.post(path + "?dry_run=1", json={"to": "open"})
    assert pointers(check_problem(response, 422)) == ["/dry_run"]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/events/none",
        "/v1/events/none/history",
        "/v1/events/%FF",
        "/v1/events/%",
        "/v1/events/" + "x" * 130,
        "/v1/events/%00",
        "/v1/events/",
        "/v1/events//history",
        "/v1/events/a/b",
        "/v1/events/a/b/history",
        "/v2/events",
        "/",
        "/docs",
        "/redoc",
        "//",
    ],
)
async def test_what_is_not_there_is_not_found(api: Api, path: str) -> None:
    await api.ingest("a/b")
    check_problem(await api.client.get(path), 404)


async def test_a_move_of_no_event_is_not_found(api: Api) -> None:
    check_problem(await api.client.post(MOVES, json={"to": "open"}), 404)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/events", "GET, POST"),
        ("PUT", "/v1/events/e1", "GET"),
        ("GET", "/v1/events/e1/transitions", "POST"),
        ("POST", "/v1/events/e1/history", "GET"),
        ("POST", "/healthz", "GET"),
        ("BREW", "/v1/events", "GET, POST"),
    ],
)
async def test_other_methods_are_refused_with_the_allowed_ones(api: Api, method: str, path: str, allowed: str) -> None:
    response = await api.client.request(method, path)
    check_problem(response, 405)
    assert response.headers["allow"] == allowed


async def test_a_pointer_never_fills_the_answer(api: Api) -> None:
    """A key of 100,000 characters is answered with the place around it."""
    problem = check_problem(await post_event(api, with_data(json.dumps({"k" * 100_000: 0})[:-2] + "NaN}")), 400)
    assert pointers(problem) == ["/data"]
    assert len(json.dumps(problem)) < 2000


@pytest.fixture(scope="module")
def shared() -> Api:
    """One API for all examples of a property."""

    async def make() -> Api:
        async with an_api() as running:
            return running

    return asyncio.run(make())


JSON_TEXTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda some: st.lists(some) | st.dictionaries(st.text(), some),
).map(lambda value: json.dumps(value).encode())
ODD_EVENTS = st.dictionaries(
    st.sampled_from([*GOOD, "x", "X-y"]), st.none() | st.integers() | st.text() | st.just("1.0")
).map(lambda odd: json.dumps({**GOOD, **odd}).encode())


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    raw=st.binary()
    | JSON_TEXTS
    | ODD_EVENTS
    | st.lists(ODD_EVENTS, max_size=3).map(lambda some: b"[" + b",".join(some) + b"]"),
    path=st.sampled_from(["/v1/events", "/v1/intake", MOVES, "/v1/events/%00/transitions"]),
    media_type=st.sampled_from(
        ["application/json", "application/cloudevents+json", "application/cloudevents-batch+json"]
    ),
    key=st.none() | st.binary(max_size=300),
)
def test_whatever_is_posted_the_answer_is_never_a_fault(
    shared: Api, raw: bytes, path: str, media_type: str, key: bytes | None
) -> None:
    async def post() -> httpx.Response:
        async with shared.client_again() as client:
            headers = [(b"Content-Type", media_type.encode())] + ([] if key is None else [(b"Idempotency-Key", key)])
            return await client.post(path, content=raw, headers=headers)

    response = asyncio.run(post())
    assert response.status_code in {202, 400, 404, 409, 413, 415, 422}
    if response.status_code != 202:
        check_problem(response, response.status_code)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    path=st.binary(max_size=40),
    query=st.binary(max_size=40),
    method=st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "DELETE", "\u00e9"]),
    headers=st.lists(
        st.tuples(st.sampled_from([b"authorization", b"content-type", b"host"]), st.binary(max_size=20)), max_size=3
    ),
)
def test_whatever_is_asked_the_answer_is_never_a_fault(
    shared: Api, path: bytes, query: bytes, method: str, headers: list[tuple[bytes, bytes]]
) -> None:
    """Past any server: bytes that no server would let through."""
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def ask() -> None:
        scope = {
            "type": "http",
            "method": method,
            "path": "/",
            "raw_path": b"/v1/events" + path,
            "query_string": query,
            "headers": headers,
            "root_path": "",
            "scheme": "http",
            "http_version": "1.1",
        }
        await shared.app(scope, receive, send)

    asyncio.run(ask())
    assert len(statuses) == 1
    assert statuses[0] < 500
