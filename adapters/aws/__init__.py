"""What the AWS adapters share: clients, the hop to threads, and the translation of errors."""
