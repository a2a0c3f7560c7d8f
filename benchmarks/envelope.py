"""G17: one 555-byte envelope from bytes to a checked value, beside pydantic's bare `model_validate_json`.

    python -m benchmarks.envelope

The bare row has the same model and keeps its field rules, but takes duplicate keys, NaN, numbers that a double
cannot hold and any depth.
"""

import json

from benchmarks.figures import in_turn, micro, per_call, show
from domain.envelope import Envelope, read_envelope
from domain.json_reader import read_json

EVENT = {
    "specversion": "1.0",
    "id": "0190a5f4-7b7e-7cc0-98d5-0c2f1f6f9a01",
    "source": "/pricing/eu-west-1",
    "type": "ItemPriced",
    "subject": "order#000000000042",
    "time": "2026-01-01T12:00:00.123456Z",
    "datacontenttype": "application/json",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "data": {
        "sku": "AB-123456",
        "currency": "EUR",
        "amount": "1999.90",
        "quantity": 3,
        "tags": ["a", "b", "c"],
        "note": "n" * 156,
    },
}


def main() -> None:
    raw = json.dumps(EVENT, separators=(",", ":")).encode()
    assert len(raw) == 555, len(raw)

    def bare() -> float:
        return per_call(lambda: Envelope.model_validate_json(raw), 10_000)

    ours, peer, ratio = in_turn(lambda: per_call(lambda: read_envelope(raw), 10_000), bare)
    show(
        "G17",
        "read_envelope: strict reader and rules, from bytes",
        micro(ours),
        f"{micro(peer)} bare pydantic",
        ratio,
        "<= 1.3x",
    )
    ours, peer, ratio = in_turn(lambda: per_call(lambda: Envelope.model_validate(json.loads(raw)), 10_000), bare)
    show("", "(for comparison: json.loads, then validate)", micro(ours), f"{micro(peer)} bare pydantic", ratio, "-")
    ours, peer, ratio = in_turn(
        lambda: per_call(lambda: read_json(raw), 10_000), lambda: per_call(lambda: json.loads(raw), 10_000)
    )
    show("", "read_json: strict, any JSON", micro(ours), f"{micro(peer)} json.loads", ratio, "-")


if __name__ == "__main__":
    main()
