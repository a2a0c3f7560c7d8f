"""Use cases over domain and ports."""
