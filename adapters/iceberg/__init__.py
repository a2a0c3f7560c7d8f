"""The lake: an Apache Iceberg table by pyiceberg and pyarrow, and DuckDB to query it."""
