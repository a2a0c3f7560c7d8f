"""Temporal: starting workflows, and what workers need. `temporalio.worker` is imported by workers alone."""
