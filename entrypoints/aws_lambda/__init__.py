"""Lambda functions, one module each; `handler` is what AWS calls (CONTRACTS § 6)."""
