"""The machine itself: its clock and its randomness."""
