"""What the system does: one use case a module, over domain and ports only."""
