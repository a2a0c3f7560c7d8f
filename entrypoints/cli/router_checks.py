"""The Temporal server that is configured, for `doctor`."""

from datetime import timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.service import RPCError

from adapters.temporal.connection import connect, translate
from entrypoints.cli.checks import Check
from entrypoints.engines.router import open_temporal
from entrypoints.settings import Settings, variable

HOUR = timedelta(hours=1)


async def look(settings: Settings) -> str | Check:
    """Look whether the namespace is there, and remembers workflows for as long as the router takes it to (R-304).

    Raises:
        Unavailable: no answer.
        Misconfigured: the namespace is not there, or may not be looked at.
    """
    target = open_temporal(settings.temporal).target
    client = await connect(target, lazy=False)
    try:
        request = DescribeNamespaceRequest(namespace=target.namespace)
        answer = await client.workflow_service.describe_namespace(request, timeout=timedelta(seconds=5))
    except RPCError as error:
        raise translate(error) from error
    retention = answer.config.workflow_execution_retention_ttl.ToTimedelta()
    where = f"{target.address}, namespace {target.namespace}: closed workflows are kept for {retention / HOUR:g} h"
    if retention > timedelta(hours=settings.router.remembered_hours):
        return where
    name = variable(("router", "remembered_hours"))
    detail = f"{where}, and the router counts on {settings.router.remembered_hours:g} h"
    return Check("temporal", "warning", detail, f"set {name} to less than {retention / HOUR:g}, or keep them longer")
