"""`GET /v1/activity`: complete, redacted, an account at a time (CONTRACTS § 4; R-402 to R-404)."""

import json
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from application.activity import record
from domain.activity import ActivityQuery, Stretch
from domain.errors import Unavailable
from domain.times import format_time
from tests.activity import a_row
from tests.entrypoints.http_api import Api, an_api, check_problem, pointers
from tests.examples import an_envelope

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with an_api() as api:
        yield api


async def numbers(api: Api, query: str) -> list[list[int]]:
    """Follow a list to its end: the numbers of events, page by page."""
    pages, cursor = [], ""
    while True:
        response = await api.client.get(f"/v1/activity?account=acme&{query}{cursor}")
        assert response.status_code == 200, response.text
        body = response.json()
        pages.append([item["data"]["number"] for item in body["items"]])
        if body["next_cursor"] is None:
            return pages
        cursor = f"&cursor={body['next_cursor']}"


async def test_gives_an_accounts_events_newest_first_in_the_form_of_the_contract(api: Api) -> None:
    envelope = an_envelope(
        "e1", data={"account_id": "acme", "n": 30.40}, traceparent="00-1", time="2026-01-01T11:00:00+02:00"
    )
    assert (
        await record(api.feed, [envelope, an_envelope("e2", account="acme"), an_envelope("e3", account="other")])
        == ["recorded"] * 3
    )
    response = await api.client.get("/v1/activity?account=acme")
    assert response.status_code == 200
    body = response.json()
    assert body.keys() == {"items", "next_cursor"}
    assert body["next_cursor"] is None
    assert [item["id"] for item in body["items"]] == ["e2", "e1"]
    assert body["items"][1] == {**envelope.attributes(), "time": "2026-01-01T09:00:00.000000Z"}


async def test_r402_pages_joined_are_everything_that_the_filters_ask_for(api: Api) -> None:
    await api.feed.store.record(
        [a_row(n, type=f"T{n % 2}", report_id=f"R{n % 3}", account="acme") for n in range(12)]
        + [a_row(50, account="b")]
    )
    assert await numbers(api, "order=asc&limit=5") == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    assert await numbers(api, "order=desc&limit=6") == [[11, 10, 9, 8, 7, 6], [5, 4, 3, 2, 1, 0]]
    assert await numbers(api, "limit=500") == [list(range(11, -1, -1))]
    assert await numbers(api, "order=asc&type=T1&limit=2") == [[1, 3], [5, 7], [9, 11]]
    assert await numbers(api, "order=asc&report_id=R2") == [[2, 5, 8, 11]]
    assert await numbers(api, "order=asc&report_id=R2&type=T1") == [[5, 11]]
    window = f"from={format_time(a_row(3).occurred_at)}&to={quote(a_row(7).occurred_at.isoformat())}"
    assert await numbers(api, f"order=asc&{window}") == [[3, 4, 5, 6, 7]]
    assert await numbers(api, "type=T9") == [[]]


async def test_fc29_what_writers_put_in_is_redacted(api: Api) -> None:
    planted = {
        "account": "acme",
        "items": [{"email": "p@example.com"}],
        "m": [["x", {"Password": "s1"}]],
        "x-api-key": "s2",
        "apiKey": "s3",
        "API_KEY": "s4",
        "password": {"old": "s5", "hint": ["s6"]},
        "token": None,
        "tokenizer": "bpe",
    }
    await record(api.feed, [an_envelope("e1", data=planted)])
    text = (await api.client.get("/v1/activity?account=acme")).text
    for secret in ("p@example.com", *(f'"s{number}"' for number in range(1, 7))):
        assert secret not in text
    [item] = json.loads(text)["items"]
    assert item["data"]["tokenizer"] == "bpe"
    assert item["data"]["token"] is None
    assert item["data"].keys() == planted.keys()


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("", "/account"),
        ("account=", "/account"),
        (f"account={'x' * 257}", "/account"),
        ("account=a&account=b", "/account"),
        ("account=a&type=", "/type"),
        (f"account=a&report_id={'x' * 257}", "/report_id"),
        ("account=a&limit=0", "/limit"),
        ("account=a&limit=501", "/limit"),
        ("account=a&limit=1.5", "/limit"),
        ("account=a&order=up", "/order"),
        ("account=a&from=yesterday", "/from"),
        ("account=a&to=1654646400", "/to"),
        ("account=a&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "/from"),
        ("account=a&state=open", "/state"),
    ],
)
async def test_a_query_that_breaks_a_rule_is_refused(api: Api, query: str, pointer: str) -> None:
    problem = check_problem(await api.client.get(f"/v1/activity?{query}"), 422)
    assert pointers(problem) == [pointer]


async def test_r404_bad_foreign_and_stale_cursors_are_400(api: Api) -> None:
    await api.feed.store.record([a_row(n) for n in range(5)] + [a_row(9, account="other")])
    cursor = (await api.client.get("/v1/activity?account=acme&limit=2")).json()["next_cursor"]
    assert quote(cursor) == cursor
    assert (await api.client.get(f"/v1/activity?account=acme&limit=9&cursor={cursor}")).status_code == 200
    for query in (
        f"account=other&cursor={cursor}",
        f"account=acme&order=asc&cursor={cursor}",
        f"account=acme&type=T&cursor={cursor}",
        f"account=acme&cursor={cursor}A",
        f"account=acme&cursor={cursor[:-1]}",
        "account=acme&cursor=",
        "account=acme&cursor=%F0%9F%98%80",
    ):
        problem = check_problem(await api.client.get(f"/v1/activity?{query}"), 400)
        assert problem["type"] == "urn:interlock:problem:bad_cursor"
        assert pointers(problem) == ["/cursor"]
    api.feed.clock.advance(8 * 86_400)
    check_problem(await api.client.get(f"/v1/activity?account=acme&cursor={cursor}"), 400)


async def test_needs_a_token_with_the_scope_view(api: Api) -> None:
    url = "/v1/activity?account=acme"
    check_problem(await api.client.get(url, headers={"Authorization": ""}), 401)
    for scope, status in (("view", 200), ("ingest", 403), ("operate", 403)):
        headers = {"Authorization": f"Bearer {api.access.issue(scope)}"}  # type: ignore[arg-type]
        assert (await api.client.get(url, headers=headers)).status_code == status


async def test_a_store_that_is_down_is_503(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def down(stretch: Stretch, /) -> None:
        raise Unavailable("DynamoDB", f"secret reason about {stretch.query.account}")

    monkeypatch.setattr(api.feed.store, "find", down)
    response = await api.client.get("/v1/activity?account=acme")
    check_problem(response, 503)
    assert "secret" not in response.text


async def test_the_default_query_is_described_as_it_is(api: Api) -> None:
    described = api.app.openapi()["paths"]["/v1/activity"]["get"]["parameters"]
    defaults = {each["name"]: each["schema"].get("default") for each in described}
    assert defaults["order"] == ("desc" if ActivityQuery("a").descending else "asc")
    assert defaults["limit"] == ActivityQuery("a").limit
