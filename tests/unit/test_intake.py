"""What a message of the front door may hold, and how it is kept (domain/intake.py)."""

import base64
import gzip
import json
import zlib
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import permutations

import pytest

from domain.envelope import MAX_EVENT_BYTES
from domain.errors import Invalid, Malformed, TooLarge
from domain.intake import (
    MAX_DECODED_BYTES,
    MAX_GZIP_MEMBERS,
    MAX_MESSAGE_BYTES,
    Partition,
    RawMessage,
    Rejection,
    check_bodies,
    check_body,
    decode,
    join_lines,
    object_name,
    partition_of,
    prefix_of,
    read_line,
    split_lines,
    to_body,
    write_line,
    write_quarantine_line,
)
from domain.objects import check_object_name
from tests.examples import START, an_envelope

EVENT = an_envelope("e1").to_json()
OTHER = an_envelope("e2").to_json()


def packed(text: bytes) -> str:
    return base64.b64encode(text).decode()


def zipped(text: bytes) -> str:
    return packed(gzip.compress(text, mtime=0))


def rejection_of(body: str) -> Rejection:
    decoded = decode(body, START)
    assert decoded.events == ()
    (rejection,) = decoded.rejections
    return rejection


@pytest.mark.parametrize("pack", [str, lambda text: packed(text.encode()), lambda text: zipped(text.encode())])
@pytest.mark.parametrize("space", ["", " \r\n\t"])
def test_r506_an_event_or_a_batch_is_read_however_it_is_packed(pack: "type[str]", space: str) -> None:
    for text, ids in ((EVENT, ["e1"]), (f"[{EVENT},{OTHER}]", ["e1", "e2"])):
        decoded = decode(pack(f"{space}{text}{space}"), START)
        assert [event.id for event in decoded.events] == ids
        assert decoded.rejections == ()
        assert decode(f"{space}{pack(text)}{space}", START).events == decoded.events


def test_gzip_of_several_members_is_one_text() -> None:
    members = gzip.compress(EVENT[:20].encode()) + gzip.compress(EVENT[20:].encode())
    assert [event.id for event in decode(packed(members), START).events] == ["e1"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("{", "expected a key in double quotes at character 1"),
        ("null", "must be a JSON object or array"),
        ('"text"', "must be a JSON object or array"),
        ("1234", "must be a JSON object or array"),
        ("true", "must be a JSON object or array"),
        ("[]", "a batch must hold 1 to 1000 events, not 0"),
        ("hello", "expected a JSON value at character 0"),
        ("\ufeff" + EVENT, "starts with a byte-order mark; send UTF-8 without one"),
        ("\ud800", "is not UTF-8 (byte 0)"),
        (EVENT + EVENT, f"has more text after the JSON value (character {len(EVENT)})"),
        (packed(b"null"), "expected a JSON value at character 0"),
        (packed(EVENT.encode())[:-1], "expected a JSON value at character 0"),
        (packed(packed(EVENT.encode()).encode()), "expected a JSON value at character 0"),
        (zipped(b"null"), "is gzip, but not of a JSON object or array"),
        (zipped(gzip.compress(EVENT.encode())), "is gzip, but not of a JSON object or array"),
        (zipped(b""), "is gzip, but not of a JSON object or array"),
        (packed(gzip.compress(EVENT.encode())[:-1]), "is gzip that was cut short"),
        (packed(gzip.compress(EVENT.encode()) + b"more bytes than a header"), "is gzip that is damaged"),
        (packed(b"\x1f\x8b" + b"\x00" * 40), "is gzip that is damaged"),
        (packed(gzip.compress(b"") * (MAX_GZIP_MEMBERS + 1)), f"is gzip of more than {MAX_GZIP_MEMBERS} members"),
    ],
)
def test_r504_a_text_that_is_no_event_is_one_rejection_with_the_reason(body: str, reason: str) -> None:
    rejection = rejection_of(body)
    assert str(rejection).startswith(reason)
    assert rejection.stage == ("validate" if body == "[]" else "decode")


def test_a_damaged_checksum_is_seen() -> None:
    whole = bytearray(gzip.compress(EVENT.encode()))
    whole[-8] ^= 1
    assert "damaged" in str(rejection_of(packed(bytes(whole))))


def test_a_small_text_that_unpacks_to_a_huge_one_is_refused_at_the_limit() -> None:
    bomb = zlib.compress(b" " * (4 * MAX_DECODED_BYTES), wbits=31)
    assert len(bomb) < 40_000
    assert str(rejection_of(packed(bomb))) == f"unpacks to more than {MAX_DECODED_BYTES} bytes"
    just = gzip.compress(EVENT.encode() + b" " * (MAX_DECODED_BYTES - len(EVENT.encode())))
    assert isinstance(decode(packed(just), START).rejections[0], Rejection)
    assert decode(packed(just), START).rejections[0].code == "too_large"
    spread = gzip.compress(b" " * (MAX_DECODED_BYTES // 2)) * 3
    assert "unpacks to more than" in str(rejection_of(packed(spread)))


def test_r504_an_invalid_time_is_named() -> None:
    for time in ("yesterday", "2026-01-01T10:00:00", 1767268800, "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z"):
        event = json.dumps({**json.loads(EVENT), "time": time})
        rejection = rejection_of(event)
        assert (rejection.stage, rejection.path) == ("validate", ("time",))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"specversion": "0.3"}, "specversion"),
        ({"id": ""}, "id"),
        ({"id": 5}, "id"),
        ({"id": "x" * 129}, "id"),
        ({"source": "not a uri"}, "source"),
        ({"type": "a\nb"}, "type"),
        ({"subject": ""}, "subject"),
        ({"bad-name": 1}, '["bad-name"]'),
    ],
)
def test_each_broken_attribute_is_named_alone_and_in_a_batch(change: dict[str, object], place: str) -> None:
    broken = json.dumps({**json.loads(EVENT), **change})
    assert str(rejection_of(broken)).startswith(f"{place}: ")
    decoded = decode(f"[{OTHER},{broken},{EVENT}]", START)
    assert [event.id for event in decoded.events] == ["e2", "e1"]
    (rejection,) = decoded.rejections
    assert str(rejection).startswith(f"[1].{place}: " if place[0] != "[" else f"[1]{place}: ")


def test_an_event_of_a_batch_that_is_no_object_is_named() -> None:
    decoded = decode(f'[1,"x",null,[],{EVENT}]', START)
    assert [str(one) for one in decoded.rejections] == [
        f"[{number}]: an event must be a JSON object" for number in range(4)
    ]
    assert len(decoded.events) == 1


@pytest.mark.parametrize("number", ["NaN", "1e400", "0.1234567890123456789", "1" * 40])
def test_numbers_that_a_double_cannot_hold_are_refused_with_their_place(number: str) -> None:
    rejection = rejection_of('{"specversion":"1.0","id":"a","source":"/s","type":"t","data":{"v":[1,' + number + "]}}")
    assert (rejection.stage, rejection.path) == ("decode", ("data", "v", 1))


def test_an_event_over_256_kib_is_refused_alone_and_in_a_batch() -> None:
    huge = an_envelope("e1", data="x").to_json().replace('"x"', '"' + "x" * MAX_EVENT_BYTES + '"')
    assert rejection_of(huge).code == "too_large"
    decoded = decode(f"[{huge},{OTHER}]", START)
    assert [(one.path, one.code) for one in decoded.rejections] == [((0,), "too_large")]


def test_a_time_is_held_against_the_arrival_so_that_a_message_means_the_same_whenever_it_is_read() -> None:
    ahead = an_envelope("e1", time="2026-01-02T12:00:00Z").to_json()
    assert decode(ahead, START).events
    assert not decode(ahead, START - timedelta(microseconds=1)).events


def test_r506_a_partition_is_the_day_of_the_event_in_utc_and_its_type() -> None:
    late = an_envelope("e1", time="2026-01-01T00:30:00+02:00")
    assert partition_of(late, START) == Partition(date(2025, 12, 31), "FlightDelayed")
    assert partition_of(an_envelope("e1", time="2025-12-31T23:30:00-01:00"), START).day == date(2026, 1, 1)


def test_an_event_without_a_time_happened_when_it_arrived() -> None:
    (event,) = decode('{"specversion":"1.0","id":"a","source":"/s","type":"t"}', START).events
    eastern = datetime(2026, 1, 31, 22, 0, tzinfo=timezone(timedelta(hours=-5)))
    assert partition_of(event, eastern) == Partition(date(2026, 2, 1), "t")


def messages(*ids: str, arrived_at: datetime = START) -> list[RawMessage]:
    return [RawMessage(message_id, arrived_at, 1, "{}") for message_id in ids]


def test_fc43_equal_batches_have_equal_names_in_whatever_order_and_however_often_received() -> None:
    name = object_name("raw", messages("a", "b", "c"))
    for order in permutations("abc"):
        again = [message._replace(receive_count=4) for message in messages(*order)]
        assert object_name("raw", again) == name
    assert object_name("raw", messages("a", "b", "c", "a")) == name
    assert name.startswith("raw/date=2026-01-01/")
    assert name.endswith(".jsonl.zst")


@pytest.mark.parametrize(
    ("one", "other"),
    [(["a", "b"], ["ab"]), (["a", "b"], ["a"]), (['a","b'], ["a", "b"]), (["a,b"], ["a", "b"]), ([""], ["", "a"])],
)
def test_fc43_other_batches_have_other_names(one: list[str], other: list[str]) -> None:
    assert object_name("raw", messages(*one)) != object_name("raw", messages(*other))


def test_fc43_names_are_safe_whatever_the_ids_are() -> None:
    for message_id in ("../../etc/passwd", "a/b", "..", "\x00", "日本😀", "x" * 5000, "date=1"):
        for kind in ("raw", "quarantine"):
            check_object_name(object_name(kind, messages(message_id)))


def test_an_object_is_dated_by_its_earliest_message_in_utc() -> None:
    midnight = datetime(2026, 1, 1, 0, 0, 0, 500, tzinfo=UTC)
    batch = [
        RawMessage("a", midnight, 1, "{}"),
        RawMessage("b", midnight - timedelta(milliseconds=1), 1, "{}"),
        RawMessage("c", midnight.astimezone(timezone(timedelta(hours=9))), 1, "{}"),
    ]
    assert object_name("raw", batch).startswith("raw/date=2025-12-31/")
    assert object_name("quarantine", batch[2:]).startswith(prefix_of("quarantine", date(2026, 1, 1)))


@pytest.mark.parametrize("body", [EVENT, "", "\n\r\u2028\x00", "\ud800 half a pair", "日本😀", '"\\', "{"])
def test_r502_a_line_keeps_a_message_whole(body: str) -> None:
    message = RawMessage("id/../\n", START + timedelta(microseconds=1), 3, body)
    line = write_line(message)
    assert b"\n" not in line
    assert read_line(line) == message
    assert split_lines(join_lines([line, line])) == [line, line]
    assert list(json.loads(line)) == ["message_id", "arrived_at", "receive_count", "body"]


def test_r504_a_quarantine_line_tells_why_and_is_read_like_any_other() -> None:
    message = RawMessage("m1", START, 1, '[1,{},{"specversion":"1.0"}]')
    line = write_quarantine_line(message, decode(message.body, START).rejections)
    told = json.loads(line)
    assert told["reason"] == "[0]: an event must be a JSON object (and 2 more events)"
    assert told["stage"] == "validate"
    assert read_line(line) == message


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"{}",
        b"[" * 100_000,
        b'{"message_id":1,"arrived_at":"2026-01-01T00:00:00Z","receive_count":1,"body":""}',
        b'{"message_id":"a","arrived_at":"yesterday","receive_count":1,"body":""}',
        b'{"message_id":"a","arrived_at":"2026-01-01T00:00:00Z","receive_count":true,"body":""}',
        b'{"message_id":"a","arrived_at":"2026-01-01T00:00:00Z","receive_count":1,"body":null}',
    ],
)
def test_a_line_that_is_none_of_ours_is_malformed(line: bytes) -> None:
    with pytest.raises(Malformed):
        read_line(line)


def test_what_is_logged_of_a_rejection_holds_none_of_the_senders_words() -> None:
    bodies = [
        '{"specversion":"1.0","id":"a","source":"/s","type":"t","hunter2":NaN}',
        '{"specversion":"1.0","id":"a","source":"/s","type":"t","data":{"hunter2":[{"hunter2":1e400}]}}',
        '[{"hunter2":1}]',
        '{"specversion":"hunter2"}',
        '{"specversion":"1.0","id":"a","source":"hunter2 hunter2","type":"t"}',
        '{"specversion":"1.0","id":"a","source":"/s","type":"t","Hunter2":1}',
        '{"hunter2":1,"hunter2":2}',
        "hunter2",
        '"hunter2"',
    ]
    told = [rejection_of(body).without_content() for body in bodies]
    assert not [text for text in told if "unter2" in text]
    assert told[0] == "*: NaN and Infinity are not JSON"
    assert told[1].startswith("data.*[0].*: is a number outside the range")
    assert told[2] == "[0].specversion: is required"


def test_fc34_what_a_queue_carries() -> None:
    for text in (EVENT, " ", "\t\r\n", "日本😀", "\ue000\ufffd", "x" * MAX_MESSAGE_BYTES):
        check_body(text)
    for text in ("", "\x00", "\x1f", "\ufffe", "\uffff", "\ud800", "a\x0b"):
        with pytest.raises(Invalid):
            check_body(text)
    with pytest.raises(TooLarge):
        check_body("é" * (MAX_MESSAGE_BYTES // 2 + 1))
    with pytest.raises(Invalid) as caught:
        check_bodies(["{}", "{}", ""])
    assert caught.value.steps == (2,)


@pytest.mark.parametrize(
    "raw",
    [EVENT.encode(), gzip.compress(EVENT.encode()), EVENT.replace(":42", ':"\ufffe"').encode(), b" " + EVENT.encode()],
)
def test_whatever_a_client_posts_becomes_a_text_that_queues_carry_and_that_means_the_same(raw: bytes) -> None:
    body = to_body(raw)
    check_body(body)
    assert [event.id for event in decode(body, START).events] == ["e1"]


def test_what_a_queue_carries_is_left_as_it_came() -> None:
    for text in (EVENT, '{"u":"日本😀"}\n', "no JSON"):
        assert to_body(text.encode()) == text
