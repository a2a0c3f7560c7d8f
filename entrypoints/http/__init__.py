"""The HTTP API: FastAPI, OpenAPI 3.1, problem details (CONTRACTS § 4)."""
