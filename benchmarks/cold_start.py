"""G19: import time of each entrypoint, beside its bare third-party libraries, each in fresh interpreters.

python -m benchmarks.cold_start
"""

import statistics
import subprocess
import sys

from benchmarks.figures import show

ENTRYPOINTS = {
    "entrypoints.aws_lambda.transitions": "import boto3, pydantic",
    "entrypoints.aws_lambda.ingestion": "import boto3, pydantic",
    "entrypoints.aws_lambda.operator_api": "import boto3, pydantic, fastapi, mangum",
}
MEASURE = """
import sys, time
start = time.perf_counter()
{statement}
print((time.perf_counter() - start) * 1000)
"""


def milliseconds(statement: str, runs: int = 7) -> float:
    figures = [
        float(
            subprocess.run(
                [sys.executable, "-c", MEASURE.format(statement=statement)], check=True, capture_output=True, text=True
            ).stdout
        )
        for _ in range(runs + 1)
    ]
    return statistics.median(figures[1:])


def main() -> None:
    for module, libraries in ENTRYPOINTS.items():
        bare = milliseconds(libraries)
        ours = milliseconds(f"import {module}")
        allowed = 1.15 * bare + 40
        show("G19", module, f"{ours:.0f} ms", f"{bare:.0f} ms {libraries[7:]}", ours / bare, f"<= {allowed:.0f} ms")


if __name__ == "__main__":
    main()
