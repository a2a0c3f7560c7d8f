"""SNS FIFO: the lifecycle topic."""
