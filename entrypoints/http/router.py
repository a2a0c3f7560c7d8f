"""The router's call: where an event would go (R-308, CONTRACTS § 4)."""

from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse

from application.explain import Explain
from domain.access import require
from domain.envelope import Text128, Text256
from domain.errors import Invalid
from domain.validation import invalid_from
from entrypoints import routed
from entrypoints.http.reading import bearer_token, query_parameters
from ports.access import Access
from ports.clock import Clock

EXPLAIN_PARAMETERS: Final = ("type", "report_id")

_TYPE: Final = TypeAdapter[str](Text128)
_REPORT_ID: Final = TypeAdapter[str](Text256)


@dataclass(frozen=True, slots=True)
class RouterCalls:
    """The handlers."""

    explain: Explain
    access: Access | None
    clock: Clock

    async def get_explanation(self, request: Request) -> JSONResponse:
        """Say where an event of a type, about a report, would go; nothing is started."""
        if self.access is not None:
            require(await self.access.identify(bearer_token(request), self.clock.now()), "view")
        given = query_parameters(request, EXPLAIN_PARAMETERS)
        if "type" not in given:
            raise Invalid("type", "is required: the type of the event")
        report_id = _checked("report_id", _REPORT_ID, given["report_id"]) if "report_id" in given else None
        return JSONResponse(routed.explained(await self.explain(_checked("type", _TYPE, given["type"]), report_id)))


def _checked(name: str, rule: TypeAdapter[str], value: str) -> str:
    try:
        return rule.validate_python(value)
    except ValidationError as error:
        raise Invalid(name, invalid_from(error).reason) from None
