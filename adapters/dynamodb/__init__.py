"""DynamoDB: one table with two indexes; its layout is described in docs/reference/table.md."""
