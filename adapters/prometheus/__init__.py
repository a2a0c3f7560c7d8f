"""Figures for Prometheus to collect."""
