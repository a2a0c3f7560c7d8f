"""How callers reach the service: channels, the names of its methods, and what its status codes mean to us."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

import grpc
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2
from pydantic import SecretStr

from adapters.grpc.gen.interlock.dedup.v1 import dedup_pb2 as pb
from adapters.grpc.pem import Tls
from domain.errors import InterlockError, Invalid, Misconfigured, Unavailable

_DETAILS: Final = "grpc-status-details-bin"
_SERVICE: Final = pb.DESCRIPTOR.services_by_name["DedupCache"]
_DEPENDENCY: Final = "the dedup service"

OPTIONS: Final = [
    # A claim whose reply was lost must not be sent again: it would meet its own write.
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # How long connecting may take, too: TLS to another region is several long round trips.
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # Each client has a connection of its own, so that clients are spread over the processes of a server.
    ("grpc.use_local_subchannel_pool", 1),
]


ADDRESS: Final = "must be host:port, or [IPv6]:port"
_MAX_PORT: Final = 65_535


def credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Give TLS as gRPC takes it."""
    return grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)


class Rpc(NamedTuple):
    """A method as channels take it."""

    path: str
    serialize: Any
    deserialize: Any


def rpc(name: str) -> Rpc:
    """Give a method of the service."""
    method = _SERVICE.methods_by_name[name]
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    return Rpc(f"/{_SERVICE.full_name}/{name}", request.SerializeToString, response.FromString)


def is_address(text: str) -> bool:
    """Say whether a text is `host:port` (`ADDRESS`); gRPC would look for anything else for ever."""
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    return (
        bool(host)
        and text.isprintable()
        and " " not in text
        and (bracketed or ":" not in host)
        and port.isascii()
        and port.isdecimal()
        and 1 <= int(port) <= _MAX_PORT
    )


def metadata(token: SecretStr | None, setting: str = "token") -> tuple[tuple[str, str], ...]:
    """Give what shows a token.

    Raises:
        Misconfigured: it cannot be sent.
    """
    if token is None:
        return ()
    shown = token.get_secret_value()
    if not (shown and shown.isascii() and shown.isprintable() and " " not in shown):
        raise Misconfigured(setting, "must have visible ASCII characters alone")
    return (("authorization", f"Bearer {shown}"),)


def failure(error: grpc.RpcError) -> InterlockError:
    """Say what a call that failed means to its caller; the one place where status codes are read."""
    code: grpc.StatusCode = error.code()
    match code:
        case grpc.StatusCode.INVALID_ARGUMENT:
            return _invalid(error)
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED | grpc.StatusCode.UNIMPLEMENTED:
            return Misconfigured(_DEPENDENCY, f"it refused the call: {error.details()}")
        case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unavailable(_DEPENDENCY, "no answer in time" if "DEADLINE" in code.name else "it cannot be reached")
        case _:
            return Unavailable(_DEPENDENCY, f"the call ended with {code.name}")


def _invalid(error: grpc.RpcError) -> Invalid:
    trailing = cast("Iterable[tuple[str, bytes]]", error.trailing_metadata() or ())
    for name, value in trailing:
        if name == _DETAILS:
            broken = error_details_pb2.BadRequest()
            for detail in status_pb2.Status.FromString(value).details:
                if detail.Unpack(broken) and broken.field_violations:
                    return Invalid(broken.field_violations[0].field, broken.field_violations[0].description)
    return Invalid("", "the service found the request wrong")
