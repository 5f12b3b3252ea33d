# make test: everything, PostgreSQL included.  make check: lint and types.  make bench: the tables.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help test test-all check format bench clean
.DEFAULT_GOAL := help

help:
	@echo "make test      run the whole test suite, on SQLite, PostgreSQL and memory"
	@echo "make test-all  the same on every Python from 3.11 to 3.13 found here"
	@echo "make check     lint and types"
	@echo "make format    put the code into shape"
	@echo "make bench     measure against bare drivers (JSON=file writes the numbers too)"
	@echo "make clean     remove what these made"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "backstory needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[postgres,tokens,dev]'
	@touch $(READY)

test: $(READY)
	$(BIN)/python -m pytest $(ARGS)

test-all:
	@for version in 3.11 3.12 3.13; do \
		if python$$version -c '' 2>/dev/null; then \
			$(MAKE) test PYTHON=python$$version VENV=.venv-$$version || exit 1; \
		else echo "python$$version is not here: skipped"; fi; \
	done

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m benchmarks $(if $(JSON),--json $(JSON)) $(ARGS)

clean:
	rm -rf .venv .venv-3.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage dist
