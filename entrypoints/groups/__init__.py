"""What can be set, group by group (CONTRACTS § 8; docs/reference/configuration.md). The models need pydantic alone."""
