"""The durable embedded engine: one SQLite file per store, shared by the processes of one machine."""
