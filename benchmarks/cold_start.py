"""G19: import time of each entrypoint, beside its bare third-party libraries, each in fresh interpreters.

python -m benchmarks.cold_start
"""

import os
import subprocess
import sys
from functools import partial

from benchmarks.figures import in_turn, show

# `import pydantic` alone loads next to nothing: its names come when they are asked for.
CORE = "from pydantic import BaseModel; import boto3"
ENTRYPOINTS = {
    "entrypoints.aws_lambda.transitions": CORE,
    "entrypoints.aws_lambda.ingestion": CORE,
    "entrypoints.aws_lambda.activity": CORE,
    "entrypoints.aws_lambda.intake": f"{CORE}, zstandard",
    "entrypoints.aws_lambda.operator_api": f"{CORE}, fastapi, mangum",
    "entrypoints.aws_lambda.router": f"{CORE}, temporalio.client, temporalio.contrib.pydantic",
}
SETTINGS = {
    "INTERLOCK_ENGINE": "aws",
    "INTERLOCK_LIFECYCLE__TOPIC_ARN": "arn:aws:sns:eu-west-1:000000000000:lifecycle.fifo",
    "INTERLOCK_LIFECYCLE__QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/000000000000/lifecycle.fifo",
    "INTERLOCK_INTAKE__BUCKET": "usage-events",
}
MEASURE = """
import sys, time
start = time.process_time()
{statement}
print((time.process_time() - start) * 1000)
"""


def milliseconds(statement: str) -> float:
    """Import in a fresh interpreter, and give the CPU milliseconds: what others do on the machine counts less."""
    command = [sys.executable, "-c", MEASURE.format(statement=statement)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | SETTINGS)
    return float(done.stdout)


def main() -> None:
    for module, libraries in ENTRYPOINTS.items():
        ours, bare, ratio = in_turn(
            partial(milliseconds, f"import {module}"), partial(milliseconds, libraries), rounds=9
        )
        limit = f"<= {1.15 * bare + 40:.0f} ms"
        show(
            "G19",
            module,
            f"{ours:.0f} ms",
            f"{bare:.0f} ms boto3, pydantic{libraries.removeprefix(CORE)}",
            ratio,
            limit,
        )


if __name__ == "__main__":
    main()
