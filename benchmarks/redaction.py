"""Redaction of a 1 KB payload, beside `orjson.loads` and `orjson.dumps` of it, and as payloads grow.

    python -m benchmarks.redaction

The first payload holds secrets under names (e-mail, phone, card, token) and a token in a URL; the second none; the
third has them in texts, where finding them takes longest. The other rows are hostile texts of 64 KiB and 1 MiB, which
takes a linear rule 16 times as long.
"""

import time
from functools import partial

import orjson
from pydantic import JsonValue

from benchmarks.figures import in_turn, micro, per_call, show
from domain.redaction import RedactionPolicy, mask_text, redact

GOAL = "<= 12x"

ORDER: dict[str, JsonValue] = {
    "order_id": "ord-000000000042",
    "placed_at": "2026-01-01T12:00:00.123456Z",
    "customer": {"tier": "gold", "email": "ada@example.com", "phone": "+49 151 12345678", "since": 2019},
    "items": [
        {"sku": f"AB-12345{number}", "quantity": number, "price": 19.99, "title": f"A thing of beauty {number}"}
        for number in range(5)
    ],
    "note": "Please ring twice, and leave it with the neighbours on the second floor if nobody opens. " * 3,
    "payment": {"method": "card", "card_number": "4111 1111 1111 1111", "token": "tok_9f8e7d6c5b4a"},
    "callback": "https://shop.example/orders/42?lang=en&access_token=9f8e7d6c5b4a",
    "tags": ["gift", "express", "eu"],
    "total": 1999.9,
    "paid": True,
    "coupon": None,
}
PLAIN: dict[str, JsonValue] = {
    **ORDER,
    "customer": {"tier": "gold", "segment": "retail", "region": "eu-west-1", "since": 2019},
    "payment": {"method": "card", "remark": "paid in full on delivery, receipt sent"},
    "callback": "https://shop.example/orders/42?lang=en&page=2",
}

TEXTS: dict[str, JsonValue] = {
    **ORDER,
    "customer": {"tier": "gold", "contact": "write to ada@example.com, or call +49 151 12345678"},
    "payment": {"method": "card", "remark": "paid with 4111 1111 1111 1111, receipt sent"},
}

HOSTILE = (
    *("a", "@", "a@", "a.", "a@a.", "1", "1 ", "4 ", "+1", "+", ":", "=", "a:", "a=", "token=", 'token="', "://"),
    *("a://b:c/", "eyJ", "eyJ.", "-", "-----BEGIN PRIVATE KEY-----", "END ", "bearer ", "basic ", "AKIA", "DE89", "{"),
    *("[", '"', "\\", '\\"', '{"a":', "É", "\uff11", "Aa0/", "1:", "1."),
)


def both_ways(raw: bytes) -> bytes:
    return orjson.dumps(orjson.loads(raw))


def main() -> None:
    policy = RedactionPolicy(mask_ips=True)
    for what, payload in (("1 KB, secrets under names", ORDER), ("1 KB without", PLAIN), ("1 KB, in texts", TEXTS)):
        raw = orjson.dumps(payload)
        shown = redact(RedactionPolicy(), "OrderPlaced", payload)
        assert isinstance(shown, dict)
        assert shown["items"] == payload["items"]
        assert (shown == payload) is (payload is PLAIN)
        assert 900 <= len(raw) <= 1100, len(raw)
        ours, peer, ratio = in_turn(
            partial(per_call, partial(redact, RedactionPolicy(), "OrderPlaced", payload), 100),
            partial(per_call, partial(both_ways, raw), 1000),
            rounds=101,  # short ones: on a busy machine most of them are left alone
        )
        show("R-403", what, micro(ours), f"{micro(peer)} orjson both ways", ratio, GOAL)
    for size in (10, 100):
        many: list[JsonValue] = [ORDER] * size
        one = partial(per_call, partial(redact, policy, "OrderPlaced", ORDER), 500)
        all_ = partial(per_call, partial(redact, policy, "OrderPlaced", many), 500 // size)
        ours, peer, ratio = in_turn(all_, one)
        show("R-403", f"{size} KB", micro(ours), f"{micro(peer)} for 1 KB", ratio / size, "about 1x each KB")
    worst = ("", 0.0)
    for sign in HOSTILE:
        small, large = (sign * (size // len(sign)) for size in (64 * 1024, 1024 * 1024))
        start = time.process_time()
        mask_text(policy, small)
        middle = time.process_time()
        mask_text(policy, large)
        growth = (time.process_time() - middle) / max(middle - start, 1e-4)
        worst = max(worst, (sign, growth), key=lambda pair: pair[1])
        show("", f"1 MiB of {sign!r}", f"{time.process_time() - middle:.2f} s CPU", "64 KiB", growth, "about 16x")
    print(f"steepest growth: {worst[1]:.1f}x, of {worst[0]!r}; 256x would be quadratic")


if __name__ == "__main__":
    main()
