"""The in-memory engine: product code for one process, and the strictest double of the others."""
