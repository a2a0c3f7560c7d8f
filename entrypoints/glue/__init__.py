"""The daily job as a Spark job, for AWS Glue."""
