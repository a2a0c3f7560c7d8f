"""Technologies behind the ports, one folder each."""
