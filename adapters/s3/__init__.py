"""Amazon S3."""
