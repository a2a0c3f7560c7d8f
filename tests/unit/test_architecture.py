import ast
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = {
    "domain": {"domain"},
    "ports": {"ports", "domain"},
    "application": {"application", "ports", "domain"},
}

IMPORT_THE_CORE = """
import importlib, pkgutil, sys
for name in ("domain", "ports", "application"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(module.name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def imported_roots(source: str) -> set[str]:
    roots: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            roots.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            roots.add(node.module.partition(".")[0])
    return roots


@pytest.mark.parametrize("layer", LAYERS)
def test_r601_the_core_imports_only_the_standard_library_and_pydantic(layer: str) -> None:
    allowed = sys.stdlib_module_names | {"pydantic", "pydantic_core"} | LAYERS[layer]
    files = sorted((ROOT / layer).rglob("*.py"))
    strays = {
        f"{file.relative_to(ROOT)}: {root}"
        for file in files
        for root in imported_roots(file.read_text(encoding="utf-8")) - allowed
    }
    assert files
    assert not strays


def test_r605_the_base_install_brings_pydantic_alone() -> None:
    base = [line for line in requires("interlock-platform") or [] if "extra ==" not in line]
    assert [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in base] == ["pydantic"]


def test_r605_importing_the_core_loads_no_driver_or_framework() -> None:
    """In a fresh interpreter, so that what other tests loaded does not count."""
    run = subprocess.run(
        [sys.executable, "-c", IMPORT_THE_CORE], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(run.stdout.split())
    assert {"domain", "ports", "application"} <= loaded
    drivers = {"boto3", "botocore", "dependency_injector", "fastapi", "starlette", "structlog", "typer", "uvicorn"}
    assert not loaded & (drivers | {"adapters", "entrypoints", "pydantic_settings", "prometheus_client", "sqlite3"})
