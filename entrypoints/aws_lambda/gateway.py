"""What API Gateway is set up with at the front door: straight to SQS, no function in between (R-501, FC-35; ADR 0017).

Plain data, for the infrastructure and for tests. The body goes into a form-encoded call of SQS. Encoded as a whole it
stays one parameter, whatever is in it: put in raw, an `&` would begin the next parameter, and a `+` become a space. The
role of the integration may send to this one queue only.
"""

import json
from collections.abc import Mapping
from typing import Final

from domain.gateway import CACHE_SECONDS

MEDIA_TYPES: Final = ("application/json", "application/cloudevents+json", "application/cloudevents-batch+json")

REQUEST_TEMPLATE: Final = "Action=SendMessage&MessageBody=$util.urlEncode($input.body)"

REQUEST_TEMPLATES: Final[Mapping[str, str]] = dict.fromkeys(MEDIA_TYPES, REQUEST_TEMPLATE)

PASSTHROUGH: Final = "NEVER"
"""Bodies of other media types are answered with 415."""

REQUEST_PARAMETERS: Final = {"integration.request.header.Content-Type": "'application/x-www-form-urlencoded'"}

ACCEPTED_TEMPLATE: Final = '{"message_ids": ["$input.path(\'$.SendMessageResponse.SendMessageResult.MessageId\')"]}'

AUTHORIZER: Final = {
    "type": "TOKEN",
    "identitySource": "method.request.header.Authorization",
    "authorizerResultTtlInSeconds": CACHE_SECONDS,
}
"""Without `identityValidationExpression`: what it turned away would be missing from the authorizer's log."""

COMPRESSION_BYTES: Final = 1024
"""`minimumCompressionSize`: set at all, it makes API Gateway unpack bodies with `Content-Encoding: gzip`, too."""

_PROBLEM: Final = "'application/problem+json'"

REFUSED_PARAMETERS: Final = {"method.response.header.Content-Type": _PROBLEM}

GATEWAY_PARAMETERS: Final = {"gatewayresponse.header.Content-Type": _PROBLEM}

UNAUTHORIZED_PARAMETERS: Final = {"gatewayresponse.header.WWW-Authenticate": "'Bearer realm=\"interlock\"'"}


def _problem(status: int, title: str, detail: str) -> str:
    return json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail})


_TOO_LARGE: Final = _problem(413, "Too large", "the body is over the 1 MiB that the queue takes")

_NOT_TAKEN: Final = _problem(400, "Bad Request", "the queue does not take this body; it may be empty")

_IF_TOO_LONG: Final = "#if($input.body.contains('must be shorter than'))#set($context.responseOverride.status = 413)"

REFUSED: Final[Mapping[str, tuple[int, str]]] = {
    r"4\d{2}": (
        400,
        _IF_TOO_LONG + f"{_TOO_LARGE}#else{_NOT_TAKEN}#end",
    ),
    r"5\d{2}": (503, _problem(503, "Try again", "the queue did not answer; send the request again")),
}
"""Answers of SQS by the pattern of their status: ours, and its template. SQS says 400 of a body that is too long."""

GATEWAY_RESPONSES: Final[Mapping[str, tuple[int, str]]] = {
    "UNAUTHORIZED": (
        401,
        _problem(401, "Not authenticated", "a bearer token is needed, or the one shown is not valid"),
    ),
    "ACCESS_DENIED": (403, _problem(403, "Not allowed", "the token does not open this path")),
    "REQUEST_TOO_LARGE": (413, _problem(413, "Too large", "the body is over what the gateway takes")),
    "UNSUPPORTED_MEDIA_TYPE": (415, _problem(415, "Unsupported Media Type", f"send {' or '.join(MEDIA_TYPES)}")),
    "AUTHORIZER_FAILURE": (503, _problem(503, "Try again", "tokens cannot be judged now; send the request again")),
    "AUTHORIZER_CONFIGURATION_ERROR": (
        503,
        _problem(503, "Try again", "tokens cannot be judged now; send the request again"),
    ),
}
"""What API Gateway answers by itself, by its response type: status and body."""
