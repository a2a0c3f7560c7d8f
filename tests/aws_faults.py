"""Seeing and disturbing what boto3 sends: at its own hooks, so that all of our code runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

Hook = Any  # of boto3's event system: called with keyword arguments that depend on the event


@contextmanager
def hooked(client: Any, event: str, hook: Hook) -> Iterator[None]:
    """Register a hook with a client for a while."""
    client.meta.events.register(event, hook)
    try:
        yield
    finally:
        client.meta.events.unregister(event, hook)


@contextmanager
def counted(client: Any) -> Iterator[list[str]]:
    """Give a list that grows by the name of each operation that is called."""
    names: list[str] = []
    service = client.meta.service_model.service_name

    def count(event_name: str, **_: object) -> None:
        names.append(event_name.rpartition(".")[2])

    with hooked(client, f"before-call.{service}", count):
        yield names


@contextmanager
def answering(client: Any, operation: str, answers: Sequence[Mapping[str, Any] | None]) -> Iterator[list[Any]]:
    """Answer the next calls of an operation in the service's place; None lets one through.

    Gives the list of all requests, as boto3 would send them.
    """
    seen: list[Any] = []
    left = iter(answers)
    service = client.meta.service_model.service_name

    def answer(params: Mapping[str, Any], **_: object) -> tuple[AWSResponse, dict[str, Any]] | None:
        seen.append(params)
        canned = next(left, None)
        if canned is None:
            return None
        status = 400 if "Error" in canned else 200
        metadata = {"HTTPStatusCode": status, "HTTPHeaders": {}, "RetryAttempts": 0}
        return AWSResponse("", status, HTTPHeaders(), None), {"ResponseMetadata": metadata, **canned}

    with hooked(client, f"before-call.{service}.{operation}", answer):
        yield seen


def refusal(code: str, **more: Any) -> dict[str, Any]:
    """Make the answer of a call that failed."""
    return {"Error": {"Code": code, "Message": "secret: the text that AWS sends"}, **more}
