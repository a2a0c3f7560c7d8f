"""Redis and Valkey: one server, Sentinel or Cluster."""
