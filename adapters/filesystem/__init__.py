"""Files in folders, for one machine."""
