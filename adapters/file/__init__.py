"""Plain files on this machine."""
