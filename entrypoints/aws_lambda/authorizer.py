"""The TOKEN authorizer of API Gateway (R-501, FC-37; ADR 0017).

| the call | the answer | the caller gets |
|---|---|---|
| a good token | a policy for the whole stage: what its scopes open | what it asked for, or 403 |
| a good token without any scope | a policy that denies the stage | 403 |
| no token, a bad one, another kind of event | raises `Unauthorized`; never kept | 401 |
| tokens cannot be judged now | raises; never kept | 500, so that no good token looks bad |

Imports no more than it needs: a test lists what it must not load (goal G19).
"""

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import SecretStr

from adapters.system.clock import SystemClock
from domain.errors import InterlockError, Invalid, Misconfigured, Unauthenticated
from domain.gateway import stage_policy
from entrypoints.aws_lambda.runtime import Context, Warm, log
from entrypoints.engines.access import open_access
from entrypoints.settings import variable
from ports.access import Access

BEARER: Final = re.compile(r"bearer +(?P<token>[\x21-\x7e]+)", re.IGNORECASE | re.ASCII)


class Unauthorized(Exception):  # noqa: N818 - API Gateway goes by the text, and this is it
    """API Gateway answers 401 where the error says exactly this."""

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class Judge(Warm):
    """A container's judge of tokens, with the loop that it was first asked on (FC-22).

    Args:
        variables: the environment.

    Raises:
        Misconfigured: a variable cannot work.
    """

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        super().__init__(variables)
        self.access: Access | None = open_access(self.settings.auth)

    def answer(self, event: object) -> dict[str, Any]:
        """Judge one call.

        Raises:
            Unauthenticated: there is no good token.
            Invalid: the event is of another kind.
            Unavailable: tokens cannot be judged now.
            Misconfigured: nothing is set that they could be judged by.
        """
        if self.access is None:
            raise Misconfigured(variable(("auth", "tokens_file")), "is not set, nor are keys of JWTs")
        if not isinstance(event, Mapping):
            raise Invalid("", "this function takes events of a TOKEN authorizer")
        shown = event.get("authorizationToken")
        match = BEARER.fullmatch(shown) if isinstance(shown, str) else None
        if match is None:
            raise Unauthenticated(token_shown=bool(shown))
        caller = self.runner.run(self.access.identify(SecretStr(match["token"]), SystemClock().now()))
        return stage_policy(caller, event.get("methodArn"))


JUDGE: Final = Judge()


def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Say what the holder of a token may reach.

    Args:
        event: `{"type": "TOKEN", "authorizationToken": "Bearer …", "methodArn": "arn:…"}`.
        context: of the invocation.

    Returns:
        The policy, for API Gateway to keep and to apply.

    Raises:
        Unauthorized: nobody of ours asks, or not in a way that we know; the log has the code.
        Unavailable: the tokens file or the issuer's keys cannot be read.
    """
    try:
        return JUDGE.answer(event)
    except (Unauthenticated, Invalid) as error:
        log("warning", "not let in", context, code=error.code)
        raise Unauthorized from None
    except InterlockError as error:
        log("error", "cannot judge", context, code=error.code, reason=str(error))
        raise
