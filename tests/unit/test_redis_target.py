"""URLs of Redis targets (CONTRACTS § 8), and the layout of keys."""

import struct

import pytest
from redis.crc import key_slot

from adapters.redis.layout import bucket_names, entries, names_of, value_name
from adapters.redis.target import Target, parse_target
from domain.dedup import Scope, key_hash
from domain.errors import Misconfigured


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("redis://cache", Target("single", (("cache", 6379),))),
        ("redis://cache/", Target("single", (("cache", 6379),))),
        ("redis://10.0.0.1:7000/3", Target("single", (("10.0.0.1", 7000),), database=3)),
        ("redis://cache?db=4", Target("single", (("cache", 6379),), database=4)),
        ("redis://[::1]", Target("single", (("::1", 6379),))),
        ("redis://[fe80::1]:7000", Target("single", (("fe80::1", 7000),))),
        ("redis://:secret@cache", Target("single", (("cache", 6379),), password="secret")),
        ("redis://me:s%40%2F%3A%23@cache", Target("single", (("cache", 6379),), "me", "s@/:#")),
        ("redis://me:a:b@c@cache", Target("single", (("cache", 6379),), "me", "a:b@c")),
        ("redis+cluster://a:1,b,[::1]:2", Target("cluster", (("a", 1), ("b", 6379), ("::1", 2)))),
        ("redis+sentinel://a,b:2/main", Target("sentinel", (("a", 26379), ("b", 2)), service="main")),
        ("redis+sentinel://u:p@a/main?db=2", Target("sentinel", (("a", 26379),), "u", "p", 2, "main")),
        ("rediss://cache", Target("single", (("cache", 6379),), tls={})),
        ("rediss+cluster://cache", Target("cluster", (("cache", 6379),), tls={})),
    ],
)
def test_urls(url: str, target: Target) -> None:
    found = parse_target(url)
    assert found == target
    assert (found.context is None) == (target.tls is None)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "redis://",
        "redis:secret@cache",
        "http://:secret@cache",
        "redis+other://:secret@cache",
        "redis://:secret@",
        "redis://:secret@cache:port",
        "redis://:secret@cache:0",
        "redis://:secret@cache:65536",
        "redis://:secret@cache/name",
        "redis://:secret@cache/-1",
        "redis://:secret@a,b",
        "redis://:secret@cache?timeout=1",
        "redis://:secret@cache?ssl_ca_certs=/x",
        "redis://:secret#1@cache",
        "redis://:secret@cache/1#x",
        "redis://:secret@[::1",
        "redis+sentinel://:secret@a",
        "redis+cluster://:secret@a/1",
        "redis+cluster://:secret@a?db=1",
        "redis+cluster://:secret@a,,b",
        "rediss://:secret@cache?ssl_ca_certs=/nowhere/ca.pem",
        "redis://:secret@cache?db",
    ],
)
def test_bad_urls_name_the_setting_and_never_the_password(url: str) -> None:
    with pytest.raises(Misconfigured) as error:
        parse_target(url, "INTERLOCK_DEDUP__PRIMARY_URL")
    assert error.value.setting == "INTERLOCK_DEDUP__PRIMARY_URL"
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


def test_a_target_does_not_show_its_password() -> None:
    assert "secret" not in repr(parse_target("redis://:secret@cache"))


@pytest.mark.parametrize(("service", "buckets"), [("pricing", 256), ("long:pricing", 2048)])
def test_r203_the_whole_scope_has_one_slot_and_names_of_its_own(service: str, buckets: int) -> None:
    scope = Scope(service, "run-1")
    names = names_of(scope, 256)
    tag = names.bucket[names.bucket.index("{") + 1 : names.bucket.index("}")]
    assert len(tag) == 32
    assert names.buckets == buckets
    assert f"{{{tag}}}" in names.values
    assert names.slot == key_slot(names.values.encode()) == key_slot(f"{names.bucket}7".encode())
    assert names_of(Scope(service, "run-2"), 256).bucket != names.bucket
    assert names_of(scope, 128).bucket != names.bucket
    listed = [name for some in bucket_names(names, 100) for name in some]
    assert listed == [f"{names.bucket}{number}" for number in range(buckets)]


def test_r205_entries_are_the_whole_hash() -> None:
    keys = [f"k{number}" for number in range(10_000)]
    short, long = Scope("pricing", "r"), Scope("long:pricing", "r")
    found, buckets = entries(short, keys, 256)
    assert [struct.pack(">q", entry) for entry in found] == [key_hash(short, key) for key in keys]
    assert set(buckets) == set(range(256))
    assert [entries(short, [key], 256) for key in keys[:500]] == [
        ([entry], [bucket]) for entry, bucket in zip(found[:500], buckets[:500], strict=True)
    ]
    found, buckets = entries(long, keys, 64)
    assert list(found) == [key_hash(long, key) for key in keys]
    assert set(buckets) == set(range(64))
    assert value_name(names_of(short, 256), -5).endswith(b":v:-5")
    assert value_name(names_of(long, 256), b"\x00\xff").endswith(b":v:\x00\xff")
