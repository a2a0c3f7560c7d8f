"""Real crawls of a small site on loopback with the filter before them, each in a process of its own (FC-07)."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scrapy import Request
from scrapy.utils.test import get_crawler

from adapters.scrapy.dupefilter import InterlockDupeFilter
from domain.errors import Misconfigured
from tests.entrypoints.dedup_server import PATIENCE, ROOT, environment, interlock, server_process

PAGES = 30
MEMORY = {"INTERLOCK_DEDUP__BACKEND": "memory"}

CRAWL = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Site(scrapy.Spider):
    name = "site"

    async def start(self):
        yield scrapy.Request(sys.argv[1])

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)

process = CrawlerProcess(json.loads(sys.argv[2]))
crawler = process.create_crawler(Site)
process.crawl(crawler)
process.start()
print(json.dumps(crawler.stats.get_stats(), default=str))
"""


class Site(NamedTuple):
    """A site in which each page links to six others and to itself, and how often each was fetched."""

    url: str
    fetched: Counter[str]


@pytest.fixture
def site() -> Iterator[Site]:
    fetched: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fetched[self.path] += 1
            number = int(self.path.strip("/") or 0)
            links = {(number * 2 + step) % PAGES for step in range(6)} | {number}
            body = "".join(f'<a href="/{link}">{link}</a>' for link in sorted(links)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base class
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Site(f"http://127.0.0.1:{server.server_port}/0", fetched)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def settings(address: str, run_id: str, **more: object) -> dict[str, object]:
    return {
        "DUPEFILTER_CLASS": "adapters.scrapy.dupefilter.InterlockDupeFilter",
        "INTERLOCK_DEDUP_ADDRESS": address,
        "INTERLOCK_DEDUP_SERVICE_CODE": "site",
        "INTERLOCK_DEDUP_RUN_ID": run_id,
        "TELNETCONSOLE_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "WARNING",
        **more,
    }


def crawl(site: Site, address: str, run_id: str, **more: object) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", CRAWL, site.url, json.dumps(settings(address, run_id, **more))],
        env={**environment({}), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    stats: dict[str, Any] = json.loads(done.stdout)
    assert stats["finish_reason"] == "finished"
    assert stats.get("log_count/ERROR", 0) == 0, done.stderr
    return stats


def test_a_second_crawl_of_a_run_fetches_nothing_and_another_run_all(site: Site) -> None:
    with server_process(variables=MEMORY) as server:
        first = crawl(site, server.address, "run-1")
        assert site.fetched == {f"/{number}": 1 for number in range(PAGES)}
        assert first["interlock_dedup/new"] == PAGES
        again = crawl(site, server.address, "run-1")
        assert site.fetched.total() == PAGES
        assert again["interlock_dedup/seen"] == 1
        assert "downloader/request_count" not in again
        crawl(site, server.address, "run-2")
        assert site.fetched == {f"/{number}": 2 for number in range(PAGES)}


def test_r208_a_dead_service_never_stops_a_crawl(site: Site) -> None:
    """Each page is fetched, and once: what this crawler scheduled itself is filtered without the service."""
    stats = crawl(site, "127.0.0.1:1", "run-1")
    assert site.fetched == {f"/{number}": 1 for number in range(PAGES)}
    assert stats["interlock_dedup/degraded"] == PAGES
    assert stats["log_count/WARNING"] >= 1


def test_r208_a_hanging_service_never_stops_a_crawl(site: Site) -> None:
    with hanging() as address:
        stats = crawl(site, address, "run-1", INTERLOCK_DEDUP_DEADLINE=0.2)
    assert site.fetched.total() == PAGES
    assert stats["interlock_dedup/degraded"] == PAGES
    assert stats["elapsed_time_seconds"] < 10


@contextmanager
def hanging() -> Iterator[str]:
    """Listen, and never answer."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.server_close()


def test_scrapys_own_fingerprint_is_the_key() -> None:
    """The order of parameters and the fragment do not matter; the method does."""
    with server_process(variables=MEMORY) as server:
        filters = [_filter(server.address) for _ in range(2)]
        try:
            assert not filters[0].request_seen(Request("http://site.example/?a=1&b=2"))
            assert filters[1].request_seen(Request("http://site.example/?b=2&a=1#top"))
            assert not filters[1].request_seen(Request("http://site.example/?b=2&a=1", method="POST"))
        finally:
            for one in filters:
                one.close("finished")


def _filter(address: str, **more: object) -> InterlockDupeFilter:
    crawler = get_crawler(settings_dict=settings(address, "run-1", **more))
    crawler._apply_settings()
    return InterlockDupeFilter.from_crawler(crawler)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("INTERLOCK_DEDUP_ADDRESS", ""),
        ("INTERLOCK_DEDUP_SERVICE_CODE", ""),
        ("INTERLOCK_DEDUP_SERVICE_CODE", "Not Legal"),
        ("INTERLOCK_DEDUP_RUN_ID", ""),
        ("INTERLOCK_DEDUP_RUN_ID", "x" * 129),
        ("INTERLOCK_DEDUP_CA_FILE", "/none.pem"),
        ("INTERLOCK_DEDUP_CA_FILE", __file__),
        ("INTERLOCK_DEDUP_KEY_FILE", ""),
        ("INTERLOCK_DEDUP_ADDRESS", "junk"),
        ("INTERLOCK_DEDUP_ADDRESS", "127.0.0.1:99999"),
        ("INTERLOCK_DEDUP_TTL", "soon"),
        ("INTERLOCK_DEDUP_TTL", "0"),
        ("INTERLOCK_DEDUP_TTL", "-1"),
        ("INTERLOCK_DEDUP_TTL", "2592001"),
        ("INTERLOCK_DEDUP_TTL", "9" * 30),
        ("INTERLOCK_DEDUP_DEADLINE", "soon"),
        ("INTERLOCK_DEDUP_DEADLINE", "0"),
        ("INTERLOCK_DEDUP_DEADLINE", "nan"),
        ("INTERLOCK_DEDUP_TOKEN", "ilk_a\nb"),
        ("INTERLOCK_DEDUP_TOKEN", "ilk_é"),
    ],
)
def test_a_bad_setting_is_named(name: str, value: str) -> None:
    more = {"INTERLOCK_DEDUP_CERTIFICATE_FILE": __file__} if name.endswith("KEY_FILE") else {}
    with pytest.raises(Misconfigured) as refused:
        _filter("127.0.0.1:1", **{**more, name: value})
    assert refused.value.setting == name


def test_a_token_that_is_not_taken_is_told_at_the_start(tmp_path: Path) -> None:
    """Not a crawl without a filter."""
    variables = {**MEMORY, "INTERLOCK_AUTH__TOKENS_FILE": str(tmp_path / "tokens.json")}
    tokens = {
        scope: interlock("token", "create", "--name", scope, "--scope", scope, **variables).stdout.strip()
        for scope in ("ingest", "view")
    }
    with server_process(variables=variables) as server:
        for wrong in ("", "ilk_wrong", tokens["view"]):
            with pytest.raises(Misconfigured) as refused:
                _filter(server.address, INTERLOCK_DEDUP_TOKEN=wrong)
            assert refused.value.setting == "INTERLOCK_DEDUP_TOKEN"
        one = _filter(server.address, INTERLOCK_DEDUP_TOKEN=tokens["ingest"], INTERLOCK_DEDUP_TTL="60")
        assert not one.request_seen(Request("http://site.example/"))
        one.close("finished")
