# Each target makes its own environment first; `make help` lists them. Only python3 (3.11 or newer) is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
# Tests in as many processes as there are processors; `make test JOBS=0` runs them in one.
JOBS ?= auto
TESTS ?= tests
SOURCES := src tests tools $(wildcard benchmarks)

.DEFAULT_GOAL := help
.PHONY: help env demo test test-long bench lint format types imports check docs lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

# The files decide, not the network: where all is installed already, pip asks nobody.
$(STAMP): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is too old: Python 3.11 or newer is needed; name one with PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip -q
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

env: $(STAMP)
	@# Some machines forbid Python to write bytecode when it imports; then each start would compile everything anew.
	@$(BIN)/python -m compileall -q src

demo: env ## run the example, kill it half-way, resume it
	PATH="$(CURDIR)/$(BIN):$$PATH" bash tools/demo.sh

test: env ## run the tests
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow" -q $(TESTS)

test-long: env ## run all tests, the slow ones too
	$(BIN)/python -m pytest -n $(JOBS) -q $(TESTS)

bench: env ## measure, and write benchmarks/results/latest.json
	$(BIN)/python benchmarks/run.py

lint: env ## check style and form
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

format: env ## put the sources into form
	$(BIN)/ruff check --fix --quiet $(SOURCES) || true
	$(BIN)/ruff format $(SOURCES)

types: env ## check types
	$(BIN)/mypy

imports: env ## check that imports point downward only
	@PYTHONPATH=src $(BIN)/lint-imports --no-cache

check: lint types imports test ## all of the above

docs: env ## write the pages that are made from the program, and check all pages
	$(BIN)/python tools/write_cli_reference.py
	$(BIN)/python -m pytest -q tests/docs

lock: ## choose the newest versions of all packages again (needs uv)
	tools/lock.sh

clean: ## remove what can be made again
	rm -rf $(VENV) demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
