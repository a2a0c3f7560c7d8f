"""One module per performance goal; run one alone with `python -m benchmarks.NAME`."""
