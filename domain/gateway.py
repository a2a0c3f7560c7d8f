"""What a caller may reach through API Gateway, as a policy for the whole stage (R-501, FC-37; ADR 0017).

API Gateway keeps the answer of an authorizer for each token and applies it to every path of the stage. So the policy
names everything that the caller's scopes open, and nothing else, whichever path was called first.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from domain.access import Caller, Scope
from domain.errors import Invalid

CACHE_SECONDS: Final = 300
"""How long API Gateway may keep an answer: a token that was revoked or ran out still works for at most as long."""

ROUTES: Final[Mapping[Scope, Collection[str]]] = {
    "ingest": ("POST/v1/intake", "POST/v1/events"),
    "view": ("GET/v1/events", "GET/v1/events/*", "GET/v1/activity", "GET/v1/router/explain"),
    "operate": ("POST/v1/events/*/transitions",),
}
"""What each scope opens (CONTRACTS § 4). In a policy `*` stands for slashes too: none may reach another's path."""

OPEN: Final = ("GET/healthz", "GET/readyz")
"""What needs no scope."""

_ARN: Final = re.compile(
    r"(?P<stage>arn:[a-z0-9-]+:execute-api:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9]+/[A-Za-z0-9_$-]{1,128})/[A-Z]+(?:/.*)?",
    re.ASCII | re.DOTALL,
)


def stage_policy(caller: Caller, method_arn: object) -> dict[str, Any]:
    """Write the answer of a TOKEN authorizer.

    A caller without a scope is allowed nothing: an explicit Deny, which is answered with 403.

    Args:
        caller: who showed a good token.
        method_arn: of the call, `arn:aws:execute-api:region:account:api/stage/METHOD/path`.

    Raises:
        Invalid: it is no such ARN.
    """
    match = _ARN.fullmatch(method_arn) if isinstance(method_arn, str) else None
    if match is None:
        raise Invalid("methodArn", "must be the ARN of a method of a stage")
    routes = [route for scope, opened in ROUTES.items() if scope in caller.scopes for route in opened]
    resources = [f"{match['stage']}/{route}" for route in (*routes, *OPEN)] if routes else [f"{match['stage']}/*"]
    statement = {"Action": "execute-api:Invoke", "Effect": "Allow" if routes else "Deny", "Resource": resources}
    return {
        "principalId": caller.name,
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": {"scopes": " ".join(scope for scope in ROUTES if scope in caller.scopes)},
    }
