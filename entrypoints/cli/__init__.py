"""The command `interlock` (CONTRACTS § 9): one module a group of commands, `main` puts them together."""
