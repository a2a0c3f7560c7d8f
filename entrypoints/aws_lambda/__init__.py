"""Handlers for AWS Lambda, one a module: `entrypoints.aws_lambda.<name>.handler` (CONTRACTS § 6).

Before its first model pydantic looks through all installed packages for plugins of its own. There are none here, and
the search would be a sixth of a cold start (goal G19).
"""

import os

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
