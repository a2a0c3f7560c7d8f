"""Logs of processes: one JSON object a line outside a terminal, coloured lines inside one; on stderr.

The standard library's loggers (uvicorn, boto3) come out in the same form. Values under names that speak of secrets are
masked, and what is secret or personal in texts, by the rules that readers of payloads are under (R-403, FC-29);
payloads are never given to a logger in the first place.
"""

import logging
import re
import sys
from typing import Final, TextIO

import structlog
from structlog.types import EventDict, Processor, WrappedLogger

from domain.redaction import RedactionPolicy, mask_text, redact
from domain.redaction_marks import MASK

_POLICY: Final = RedactionPolicy()
_SECRET_NAME: Final = re.compile(r"authorization|password|secret|token|api_?key|credential", re.IGNORECASE)


def set_up(stream: TextIO | None = None, *, level: int = logging.INFO) -> None:
    """Send all logs to a stream, stderr by default. Calling it again replaces what it set up."""
    out: TextIO = sys.stderr if stream is None else stream
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        mask_secrets,
    ]
    renderer: Processor = structlog.processors.JSONRenderer()
    if out.isatty():
        renderer = structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for chatty in ("asyncio", "boto3", "botocore", "urllib3"):
        logging.getLogger(chatty).setLevel(max(level, logging.WARNING))


def mask(text: str) -> str:
    """Mask what is secret or personal in a text, as far as no policy of the deployment is needed to know it."""
    return mask_text(_POLICY, text)


def mask_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Mask what must not be in a log; a processor of structlog."""
    for name, value in event.items():
        if _SECRET_NAME.search(name):
            event[name] = MASK
        elif isinstance(value, str):
            event[name] = mask(value)
        elif isinstance(value, dict | list):
            event[name] = redact(_POLICY, "", value)
    return event
