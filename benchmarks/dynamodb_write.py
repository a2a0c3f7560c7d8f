"""G18: client CPU of one conditional write to DynamoDB, beside boto3's bare `put_item` of the same item.

    python -m benchmarks.dynamodb_write

A child process answers every request with 200 and `{}` at once, so the figures are what Python spends: marshalling,
signing, HTTP. CPU seconds of the whole process, threads included.
"""

import asyncio
import os
import subprocess
import sys
import time
from itertools import count

import boto3

from adapters.aws.clients import Aws
from adapters.dynamodb.event_store import DynamoDBEventStore
from adapters.dynamodb.items import event_item
from benchmarks.figures import in_turn, micro, show
from domain.envelope import Envelope, envelope_from
from domain.event import RecordedEvent
from domain.times import parse_time

CALLS = 400
ARRIVED = parse_time("2026-01-01T12:00:00Z")
NUMBERS = count()
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: 2\r\n\r\n{}"


class Answering(asyncio.Protocol):
    """Answers every request with an empty object."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        """Answer each request that is complete."""
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            headers = self.buffer[:end].lower()
            at = headers.find(b"content-length:")
            length = int(headers[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            self.transport.write(ANSWER)


async def answer() -> None:
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def an_event() -> RecordedEvent:
    event_id = f"event-{next(NUMBERS):012}"
    envelope: Envelope = envelope_from(
        {
            "specversion": "1.0",
            "id": event_id,
            "source": "/pricing",
            "type": "ItemPriced",
            "subject": "order#000000000042",
            "time": "2026-01-01T12:00:00.123456Z",
            "data": {"sku": "AB-123456", "currency": "EUR", "amount": "1999.90", "quantity": 3, "note": "n" * 120},
        }
    )
    return RecordedEvent(event_id, "order#000000000042", ARRIVED, envelope)


def main() -> None:
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "y",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.dynamodb_write", "serve"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        endpoint = f"http://127.0.0.1:{child.stdout.readline().strip()}"
        client = boto3.client("dynamodb", endpoint_url=endpoint)
        aws = Aws(endpoint_url=endpoint)
        store = DynamoDBEventStore(aws, "events")

        def bare() -> float:
            events = [an_event() for _ in range(CALLS)]
            start = time.process_time()
            for event in events:
                client.put_item(
                    TableName="events", Item=event_item(event), ConditionExpression="attribute_not_exists(pk)"
                )
            return (time.process_time() - start) / CALLS

        async def record() -> float:
            events = [an_event() for _ in range(CALLS)]
            start = time.process_time()
            for event in events:
                await store.record([event])
            return (time.process_time() - start) / CALLS

        with asyncio.Runner() as runner:
            ours, peer, ratio = in_turn(lambda: runner.run(record()), bare)
            show(
                "G18", "record one event: CPU of the client", micro(ours), f"{micro(peer)} bare boto3", ratio, "<= 1.1x"
            )

            async def bulk() -> float:
                events = [an_event() for _ in range(CALLS)]
                start = time.process_time()
                await store.record(events)
                return (time.process_time() - start) / CALLS

            ours, peer, ratio = in_turn(lambda: runner.run(bulk()), bare)
            show("G18", "record in bulk, 100 a transaction", micro(ours), f"{micro(peer)} bare boto3", ratio, "<= 1.1x")
        aws.close()
    finally:
        child.terminate()
        child.wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(answer())
    else:
        main()
