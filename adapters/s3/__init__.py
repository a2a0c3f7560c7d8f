"""Objects on S3."""
