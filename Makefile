# make chat: talk.  make test: everything, PostgreSQL included.  make check: lint and types.  make bench: the tables.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CHAT := .venv-chat

.PHONY: help chat test test-all coverage check format bench bench-peers clean
.DEFAULT_GOAL := help

help:
	@echo "make chat      talk with a model that remembers (ARGS='--model … --new')"
	@echo "make test      run the whole test suite, on SQLite, PostgreSQL and memory"
	@echo "make test-all  the same on every Python from 3.11 to 3.13 found here"
	@echo "make coverage  the rooms of the law: every line and branch is tested"
	@echo "make check     lint and types"
	@echo "make format    put the code into shape"
	@echo "make bench     measure against bare drivers (JSON=file writes the numbers too)"
	@echo "make bench-peers  measure beside the other libraries (ARGS='--jobs restore --peers backstory,llm')"
	@echo "make clean     remove what these made"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "backstory needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[postgres,tokens,dev]'
	@touch $(READY)

# An environment of its own: what only tests need would make the first chat wait.
$(CHAT)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "backstory needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "setting up the chat, once: about a minute"
	@$(PYTHON) -m venv $(CHAT)
	@$(CHAT)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable '.[chat,openai,anthropic,embedded,tokens,postgres]'
	@touch $@

chat: $(CHAT)/.ready
	@$(CHAT)/bin/backstory chat $(ARGS)

test: $(READY)
	$(BIN)/python -m pytest $(ARGS)

test-all:
	@for version in 3.11 3.12 3.13; do \
		if python$$version -c '' 2>/dev/null; then \
			$(MAKE) test PYTHON=python$$version VENV=.venv-$$version || exit 1; \
		else echo "python$$version is not here: skipped"; fi; \
	done

# The pure rooms where the law is: every line and every branch.
coverage: $(READY)
	$(BIN)/python -m pytest tests/core/test_events.py tests/core/test_replay.py tests/core/test_cases.py \
		--cov=backstory.core.events --cov=backstory.core.replay --cov-branch --cov-report=term-missing --cov-fail-under=100

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python -m benchmarks $(if $(JSON),--json $(JSON)) $(ARGS)

# Their newest releases, each in an environment of its own in .venv-peers. About an hour; alone on the machine.
bench-peers: $(READY)
	$(BIN)/python -m benchmarks.peers $(if $(JSON),--json $(JSON)) $(or $(ARGS),--page)

clean:
	rm -rf .venv .venv-3.* .venv-peers $(CHAT) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage dist
