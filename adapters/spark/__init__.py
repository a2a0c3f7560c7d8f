"""Spark, to spread the daily job over a cluster."""
