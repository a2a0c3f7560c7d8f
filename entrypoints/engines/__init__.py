"""The stores and queues behind the ports, one module a value of `INTERLOCK_ENGINE`; `entrypoints.wiring` picks one."""
