"""Processes, one folder each, and the composition root."""
