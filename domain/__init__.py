"""Pure rules and value types: no I/O, no clock, no randomness."""
