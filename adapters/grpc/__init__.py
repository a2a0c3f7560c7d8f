"""The dedup service seen from its callers. `gen/` is generated from `proto/` by `make proto`."""
