"""SQS FIFO: the lifecycle queue."""
