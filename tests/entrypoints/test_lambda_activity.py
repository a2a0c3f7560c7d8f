"""The function `activity`: EventBridge in, a row of an account out (CONTRACTS § 6; R-401, FC-22, FC-33)."""

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from adapters.file.token_file import add_token
from domain.access import issue_token
from domain.errors import Invalid, Unavailable
from entrypoints.aws_lambda import activity, operator_api
from entrypoints.aws_lambda.runtime import Runtime
from tests.activity import a_query
from tests.engines import REGION, Engine, activity_table, bucket
from tests.entrypoints.lambda_events import Context
from tests.entrypoints.test_lambda_operator_api import http_api, rest_api

MEMORY = {"INTERLOCK_ENGINE": "memory"}


def an_event(number: int = 1, **detail: object) -> dict[str, Any]:
    """Give an event as EventBridge hands it to a function."""
    return {
        "version": "0",
        "id": f"6a7e8feb-b491-4cf7-a9f1-{number:012}",
        "detail-type": "ReportRunCompletedEvent",
        "source": "reports",
        "account": "111122223333",
        "time": "2026-01-01T10:00:00Z",
        "region": "us-east-1",
        "resources": [],
        "detail": {"report_id": "R1", "number": number, **detail},
    }


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    """One container."""
    shared = Runtime(publishing=None, variables=MEMORY)
    monkeypatch.setattr(activity, "RUNTIME", shared)
    yield shared
    shared.close()


def items(runtime: Runtime, account: str = "111122223333") -> list[dict[str, Any]]:
    page = runtime.run_once(lambda: runtime.activity.history.page(a_query(account=account)))
    return [dict(item) for item in page.items]


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_r401_an_event_is_recorded_once_however_often_it_comes(runtime: Runtime) -> None:
    first = activity.handler(an_event(), Context())
    assert first["outcome"] == "recorded"
    assert activity.handler(an_event(), Context()) == {**first, "outcome": "duplicate"}
    assert activity.handler({**an_event(), "time": "2026-01-01T11:00:00Z"}, Context())["outcome"] == "duplicate"
    activity.handler(an_event(2, account_id="acme"), Context())
    [item] = items(runtime)
    assert item == {
        "specversion": "1.0",
        "id": an_event()["id"],
        "source": "reports",
        "type": "ReportRunCompletedEvent",
        "time": "2026-01-01T10:00:00.000000Z",
        "account": "111122223333",
        "region": "us-east-1",
        "resources": [],
        "data": {"report_id": "R1", "number": 1},
    }
    assert [item["data"]["number"] for item in items(runtime, "acme")] == [2]


@pytest.mark.parametrize(
    "kind", [None, "", 5, ["a"], {"password": "hunter2"}, "x" * 129, "a\nb", "a\ud800b", float("nan"), ...], ids=ascii
)
def test_fc21_an_event_with_an_odd_detail_type_is_recorded_too(runtime: Runtime, kind: object) -> None:
    event = {**an_event(), "detail-type": kind}
    if kind is ...:
        del event["detail-type"]
    assert activity.handler(event, Context())["outcome"] == "recorded"
    assert activity.handler(event, Context())["outcome"] == "duplicate"
    [item] = items(runtime)
    assert item["type"].startswith("odd.")
    assert item["data"] == event["detail"]
    assert "hunter2" not in json.dumps(item)


def test_fc22_one_container_serves_many_calls(runtime: Runtime) -> None:
    outcomes = [activity.handler(an_event(number), Context())["outcome"] for number in range(5)]
    assert outcomes == ["recorded"] * 5
    assert len(items(runtime)) == 5


@pytest.mark.parametrize(
    ("event", "place"),
    [
        ({}, '["detail-type"]'),
        ({"Records": []}, '["detail-type"]'),
        ({**an_event(), "detail": {"n": float("nan")}}, "detail.n"),
        ({**an_event(), "detail": {"n": 10**40}}, "detail.n"),
        ({**an_event(), "time": "yesterday"}, "time"),
        ({**an_event(), "time": "2190-01-01T00:00:00Z"}, "time"),
        ({name: value for name, value in an_event().items() if name != "account"}, "account"),
        ({**an_event(), "detail": "x" * 1024 * 1024}, ""),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_fc28_what_cannot_be_kept_raises_with_its_place_and_is_not_shown(
    runtime: Runtime, capsys: pytest.CaptureFixture[str], event: dict[str, Any], place: str
) -> None:
    with pytest.raises(Invalid) as caught:
        activity.handler({**event, "secret-name": "hunter2"}, Context())
    assert caught.value.place in {place, place.strip('["]')}
    told = capsys.readouterr().out
    assert "hunter2" not in told
    assert json.loads(told.splitlines()[-1])["event"] == "event refused"
    assert items(runtime) == []


@pytest.mark.parametrize("event", [None, [], "text", 5])
def test_what_is_no_event_at_all_raises(runtime: Runtime, event: Any) -> None:
    with pytest.raises(Invalid):
        activity.handler(event, Context())
    assert runtime.settings.engine == "memory"


def test_fc29_a_key_that_is_personal_is_in_no_log_and_no_error(
    runtime: Runtime, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Invalid) as caught:
        activity.handler(an_event(people={"p@example.com": {"n": float("nan")}}), Context())
    assert "p@example.com" not in f"{caught.value!s} {caught.value!r} {capsys.readouterr().out}"
    assert "NaN and Infinity" in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert runtime.settings.engine == "memory"


def test_logs_and_figures_hold_no_content(runtime: Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    activity.handler(an_event(email="p@example.com", password="hunter2"), Context())
    told = capsys.readouterr().out
    assert "p@example.com" not in told
    assert "hunter2" not in told
    said = [json.loads(line) for line in told.splitlines()]
    assert [line["outcome"] for line in said if line.get("event") == "activity"] == ["recorded"]
    assert any(line.get("activity_events_total") == 1 for line in said)
    assert runtime.settings.engine == "memory"


def test_a_store_that_is_away_raises_so_that_the_event_comes_again(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*_: object) -> list[bool]:
        raise Unavailable("DynamoDB", "is away")

    with monkeypatch.context() as patched:
        patched.setattr(runtime.activity.feed.store, "record", down)
        with pytest.raises(Unavailable):
            activity.handler(an_event(), Context())
    assert activity.handler(an_event(), Context())["outcome"] == "recorded"


def test_fc33_on_aws_large_events_go_to_the_bucket_and_come_back(
    ministack: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ministack.url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", ministack.url)
        monkeypatch.setenv("AWS_REGION", REGION)
    with activity_table(ministack) as table, bucket(ministack) as name:
        variables = {
            **os.environ,
            "INTERLOCK_ENGINE": "aws",
            "INTERLOCK_ACTIVITY__TABLE": table,
            "INTERLOCK_ACTIVITY__BUCKET": name,
        }
        runtime = Runtime(publishing=None, variables=variables)
        monkeypatch.setattr(activity, "RUNTIME", runtime)
        for number, size in enumerate((10, 399 * 1024, 401 * 1024, 600_000)):
            assert activity.handler(an_event(number, text="x" * size), Context())["outcome"] == "recorded"
        kept = ministack.aws.s3.client().list_objects_v2(Bucket=name).get("Contents", [])
        assert len(kept) == 3
        pages = runtime.run_once(lambda: runtime.activity.history.page(a_query(account="111122223333")))
        assert sorted(len(item["data"]["text"]) for item in pages.items) == [10, 399 * 1024, 401 * 1024, 600_000]  # type: ignore[index,call-overload,arg-type]
        runtime.close()


def test_fc33_without_a_bucket_an_event_over_400_kb_is_refused_with_size_and_limit(
    ministack: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if ministack.url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", ministack.url)
        monkeypatch.setenv("AWS_REGION", REGION)
    with activity_table(ministack) as table:
        variables = {**os.environ, "INTERLOCK_ENGINE": "aws", "INTERLOCK_ACTIVITY__TABLE": table}
        runtime = Runtime(publishing=None, variables=variables)
        monkeypatch.setattr(activity, "RUNTIME", runtime)
        with pytest.raises(Invalid, match="the limit is 409600"):
            activity.handler(an_event(text="x" * 411_000), Context())
        assert lines(capsys)[-1]["code"] == "too_large"
        assert activity.handler(an_event(text="x" * 390_000), Context())["outcome"] == "recorded"
        runtime.close()


@pytest.mark.parametrize("payload", [rest_api, http_api])
def test_r402_what_one_function_recorded_another_ones_containers_page_through(
    ministack: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, payload: Callable[..., dict[str, Any]]
) -> None:
    """Each page comes from a new container, and no key of cursors is configured: the table keeps one for all."""
    if ministack.url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", ministack.url)
        monkeypatch.setenv("AWS_REGION", REGION)
    token = issue_token("ada", ["view"], datetime.now(UTC) + timedelta(days=1), b"0" * 40)
    add_token(tmp_path / "tokens.json", token.record)
    headers = {"Authorization": f"Bearer {token.text.get_secret_value()}"}
    with activity_table(ministack) as table:
        variables = {
            **os.environ,
            "INTERLOCK_ENGINE": "aws",
            "INTERLOCK_ACTIVITY__TABLE": table,
            "INTERLOCK_AUTH__TOKENS_FILE": str(tmp_path / "tokens.json"),
            "INTERLOCK_LIFECYCLE__TOPIC_ARN": "arn:aws:sns:us-east-1:000000000000:lifecycle.fifo",
        }
        feed = Runtime(publishing=None, variables=variables)
        monkeypatch.setattr(activity, "RUNTIME", feed)
        for number in range(5):
            activity.handler(an_event(number, email="p@example.com"), Context())
        feed.close()
        numbers: list[int] = []
        query = "account=111122223333&report_id=R1&order=asc&limit=2"
        cursor = ""
        while True:
            container = Runtime(publishing=True, variables=variables)
            monkeypatch.setattr(operator_api, "RUNTIME", container)
            answer = operator_api.handler(payload("GET", "/v1/activity", query + cursor, headers), Context())
            container.close()
            assert answer["statusCode"] == 200, answer
            assert "p@example.com" not in answer["body"]
            page = json.loads(answer["body"])
            numbers += [item["data"]["number"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
    assert sorted(numbers) == [0, 1, 2, 3, 4]
