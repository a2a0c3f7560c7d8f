"""The gRPC server: what every call passes (`calls`), how refusals look (`errors`), and one module a service."""
