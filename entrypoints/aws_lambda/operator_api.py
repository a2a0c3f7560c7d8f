"""The operator API in a function of its own (R-108), behind API Gateway: REST APIs (payload 1.0) and HTTP APIs (2.0).

Mangum runs the event loop itself, so it is handed ours: clients stay on the loop that they were made under (FC-22).
"""

import asyncio
import sys
from functools import cache
from typing import Any, Final
from urllib.parse import unquote

from mangum import Mangum
from mangum.types import ASGI
from starlette.types import ASGIApp, Receive, Scope, Send

from domain.errors import Misconfigured
from entrypoints.aws_lambda.runtime import Context, Runtime
from entrypoints.logs import set_up
from entrypoints.settings import variable
from entrypoints.wiring import make_app, make_explain, open_access, open_router_stores, open_skip_list

TEXT: Final = ["application/json", "application/problem+json", "text/"]
"""What is answered as text. Anything else Mangum answers as base64, which a REST API hands on as it is."""

RUNTIME: Final = Runtime(publishing=True)


def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Answer one request.

    Raises:
        Misconfigured: the function's variables cannot work; without a tokens file nobody gets in.
    """
    answer_request = _adapter(RUNTIME)
    asyncio.set_event_loop(RUNTIME.runner.get_loop())
    try:
        return answer_request(event, context)  # type: ignore[arg-type] # Mangum wants the class of AWS's own runtime
    finally:
        RUNTIME.metrics.flush()


@cache
def _adapter(runtime: Runtime) -> Mangum:
    set_up(sys.stdout)
    access = open_access(runtime.settings)
    if access is None:
        missing = "is not set, nor are keys of JWTs; the function lets nobody in without"
        raise Misconfigured(variable(("auth", "tokens_file")), missing)
    asyncio.set_event_loop(runtime.runner.get_loop())
    settings, metrics = runtime.settings, runtime.metrics
    explain = make_explain(settings, open_router_stores(settings), open_skip_list(settings, metrics), metrics)
    app = make_app(settings, runtime.platform, access, runtime.activity, explain=explain)
    return Mangum(as_sent(app), lifespan="off", text_mime_types=TEXT)


def as_sent(app: ASGIApp) -> ASGI:
    """Give an app the path as ASGI wants it. API Gateway's two kinds differ, and Mangum decodes both.

    | API | payload | path in the event | what the app gets |
    |---|---|---|---|
    | REST | 1.0, without `version` | percent-encoded, without the stage | it, decoded; as it came in `raw_path` |
    | HTTP | 1.0 or 2.0, with `version` | decoded, behind the stage unless that is `$default` | it, without the stage |
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        event = scope["aws.event"]
        context = event["requestContext"]
        path: str = event["path"] if "path" in event else context["http"]["path"]
        if "version" not in event:
            await app({**scope, "path": unquote(path), "raw_path": path.encode()}, receive, send)
        else:
            stage = context.get("stage") or "$default"
            await app({**scope, "path": "/" + path.removeprefix(f"/{stage}/").removeprefix("/")}, receive, send)

    return serve
