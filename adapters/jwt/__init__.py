"""JWTs, verified by the keys that their issuer publishes."""
