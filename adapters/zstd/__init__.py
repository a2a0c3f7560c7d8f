"""Objects compressed with zstd on their way into another store."""
