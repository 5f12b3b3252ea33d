# Everything a contributor needs, without installing anything by hand. `make` alone lists the targets.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CHAT := .venv-chat
ADAPTERS := .venv-adapters
OLDEST := .venv-oldest
FRAMEWORKS ?= openai_agents claude pydantic_ai langgraph adk agent_framework strands
PIP := -m pip install --quiet --disable-pip-version-check

# Shows pip's output as one line that changes, on a terminal only; errors stay. awk hides pip's exit code, so its users
# check for a file that is made after pip.
ONE_LINE := awk -v tty=$$([ -t 2 ] && echo 1) '/^(Collecting|Downloading|Building|Installing)/ \
	{ if (tty) { printf "\r\033[K  %d  %.60s", ++n, $$0; fflush() } next } /ERROR|error:/ { print "\n" $$0 } \
	END { if (tty) print "" }'

.PHONY: help docs chat web demo test test-all test-adapters test-newest coverage mutate corpus soak check format bench bench-adapters bench-peers clean
.DEFAULT_GOAL := help

# A target is listed if "##" and a sentence follow it.
help:
	@echo "Usage: make TARGET"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo 'Options go into ARGS:    make chat ARGS="--model claude-... --new"'
	@echo '                         make test ARGS="tests/log -k rewind"'
	@echo "Another Python:          make test PYTHON=python3.13 VENV=.venv-3.13"
	@echo "Everything is installed into .venv and .venv-chat in this folder."

define check_python
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "backstory needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
endef

$(READY): pyproject.toml
	$(check_python)
	@echo "Setting up $(VENV) for development (once, a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) 'pip>=25.1'  # the first pip that knows --group
	@$(BIN)/python $(PIP) --editable '.[all]' --group dev
	@touch $@

# Only what a first chat needs, without compiling it in advance, so that it starts sooner. pip's output is not buffered;
# otherwise the progress line would stand still for a quarter of a minute. `make chat EXTRAS=all` installs the rest.
EXTRAS ?= chat,embedded,openai,anthropic,prices
define install_into_chat
	@rm -f $@
	@{ PYTHONUNBUFFERED=1 $(CHAT)/bin/python -m pip install --disable-pip-version-check --no-compile --editable '.[$(1)]' \
		&& touch $@; } 2>&1 | $(ONE_LINE)
	@test -f $@
endef

$(CHAT)/.ready: pyproject.toml
	$(check_python)
	@echo "Setting up the chat in $(CHAT) (once, a minute or less)"
	@$(PYTHON) -m venv $(CHAT)
	$(call install_into_chat,$(EXTRAS))

$(CHAT)/.web-ready: $(CHAT)/.ready
	@echo "Adding the page to $(CHAT) (once)"
	$(call install_into_chat,web)

chat: $(CHAT)/.ready  ## Chat with a model in this terminal; the small embedded one needs no key
	@$(CHAT)/bin/backstory chat $(ARGS)

# A store to look at, made anew each time; --store in ARGS shows another one.
web: $(CHAT)/.web-ready  ## Look at a demo store in a browser
	@$(CHAT)/bin/python -m tools.demo $(CHAT)/demo.db > /dev/null
	@$(CHAT)/bin/backstory --store $(CHAT)/demo.db web --write $(ARGS)

# The tour asks to be killed (code 137), and continues when it is started again.
TOUR := $(CHAT)/bin/backstory --store $(CHAT)/tour.db
demo: $(CHAT)/.web-ready  ## Take the tour of one minute, then look at its log in a browser
	@rm -f $(CHAT)/tour.db*
	@while $(TOUR) chat --model tour; code=$$?; [ $$code = 137 ]; do \
		stty sane; echo "Killed with kill -9. Starting again."; \
	done
	@$(TOUR) web --write $(ARGS)

# Side by side on all cores. A part alone is often faster with JOBS=0: no workers to start.
JOBS ?= logical
test: $(READY)  ## Run all tests: on SQLite, on a real PostgreSQL and in memory
	$(BIN)/python -m pytest --numprocesses $(JOBS) --maxprocesses 8 --dist worksteal $(ARGS)

test-all:  ## Run all tests on every installed Python from 3.11 to 3.14
	@for version in 3.11 3.12 3.13 3.14; do \
		if python$$version -c '' 2>/dev/null; then \
			$(MAKE) test PYTHON=python$$version VENV=.venv-$$version || exit 1; \
		else echo "python$$version is not installed: skipped"; fi; \
	done

# The newest releases of all frameworks resolve into one environment. Claude's comes without its program of 160 MB,
# which no test needs.
FRAMEWORK_PIP := $(PIP) --no-binary claude-agent-sdk
$(ADAPTERS)/.ready: pyproject.toml
	$(check_python)
	@echo "Setting up the frameworks in $(ADAPTERS) (once, some minutes)"
	@$(PYTHON) -m venv $(ADAPTERS)
	@$(ADAPTERS)/bin/python $(PIP) 'pip>=25.1'
	@$(ADAPTERS)/bin/python $(FRAMEWORK_PIP) --editable '.[adapters,postgres]' --group adapters
	@touch $@

# The oldest release of each framework is in an environment of its own: it need not fit the oldest of the others.
.PRECIOUS: $(OLDEST)/%/.ready
$(OLDEST)/%/.ready: pyproject.toml
	$(check_python)
	@echo "Setting up the oldest $* in $(OLDEST)/$* (once, a minute)"
	@$(PYTHON) -m venv $(OLDEST)/$*
	@$(OLDEST)/$*/bin/python $(PIP) 'pip>=25.1'
	@$(OLDEST)/$*/bin/python tools/oldest.py $* > $(OLDEST)/$*/constraints.txt
	@$(OLDEST)/$*/bin/python $(FRAMEWORK_PIP) --editable '.[$*,postgres]' --constraint $(OLDEST)/$*/constraints.txt \
		--group $(if $(filter langgraph,$*),adapter-langgraph,adapter)
	@touch $@

# RELEASES=oldest tests each framework alone, FRAMEWORKS="adk strands" only some of them.
test-adapters: $(if $(filter oldest,$(RELEASES)),$(FRAMEWORKS:%=test-oldest-%),test-newest)  ## Test the adapters with the real frameworks

test-newest: $(ADAPTERS)/.ready
	BACKSTORY_TEST_ADAPTERS=all $(ADAPTERS)/bin/python -m pytest --numprocesses $(JOBS) --maxprocesses 8 \
		$(or $(ARGS),tests/adapters)

test-oldest-%: $(OLDEST)/%/.ready
	BACKSTORY_TEST_ADAPTERS=$* $(OLDEST)/$*/bin/python -m pytest --numprocesses $(JOBS) --maxprocesses 8 \
		tests/adapters/test_$**.py tests/adapters/test_pages.py

# All of log/ is reached, line by line and branch by branch; of wire/ all but a few branches.
coverage: $(READY)  ## Check that the tests cover every line and branch of the pure modules
	$(BIN)/python -m pytest --numprocesses $(JOBS) --maxprocesses 8 --dist worksteal tests/log tests/wire \
		tests/storage/test_contract*.py tests/transcripts/test_round_trip.py tests/test_attachments.py \
		-k "not postgres and not sqlite" --cov=backstory.log --cov=backstory.wire --cov-branch --cov-report=
	$(BIN)/coverage report --include='src/backstory/log/*' --skip-covered --show-missing --fail-under=100
	$(BIN)/coverage report --include='src/backstory/wire/*' --skip-covered --show-missing --fail-under=99

# The tests of each floor, and its source if that is not its folder. The modules of PostgreSQL are left out, because
# the mutants run without its server. For the adapters, after `make test-adapters`:
#     BACKSTORY_TEST_ADAPTERS=all make mutate FLOOR=adapters VENV=.venv-adapters
TESTS_log := tests/log
TESTS_wire := tests/wire
TESTS_storage := tests/storage tests/test_follow.py tests/maintenance/test_search.py tests/maintenance/test_search_races.py
TESTS_interface := $(wildcard tests/storage/*contract*) \
	$(filter-out %_architecture.py %_docs.py %_mcp.py %_style.py,$(wildcard tests/test_*.py))
TESTS_maintenance := tests/maintenance tests/storage/test_contract_deletion.py tests/runtime/test_requests.py
TESTS_present := tests/present tests/cli
TESTS_transcripts := tests/transcripts
TESTS_runtime := tests/runtime
TESTS_adapters := tests/adapters
TESTS_chat := tests/chat
TESTS_web := tests/web
TESTS_mcp := tests/test_mcp.py
TESTS_cli := tests/cli
SOURCE_storage := src/backstory/storage/*.py src/backstory/storage/sqlite
SOURCE_interface := $(filter-out %/mcp.py,$(wildcard src/backstory/*.py src/backstory/aio))
SOURCE_mcp := src/backstory/mcp.py
FLOORS := $(sort $(patsubst TESTS_%,%,$(filter TESTS_%,$(.VARIABLES))))
COUNT ?= $(if $(filter log wire,$(FLOOR)),200,$(if $(filter storage transcripts maintenance,$(FLOOR)),100,60))

mutate: $(READY)  ## Change the source of a FLOOR in COUNT places, one by one, and see whether its tests notice
	@$(if $(filter $(FLOORS),$(FLOOR)),,echo "Choose a floor, such as FLOOR=log: $(FLOORS)"; exit 2)
	$(BIN)/python -m tools.mutate $(or $(SOURCE_$(FLOOR)),src/backstory/$(FLOOR)) --count $(COUNT) $(ARGS) \
		--tests $(TESTS_$(FLOOR)) -k "not postgres"

corpus: $(READY)  ## Check requests and imports against recordings, if you have them
	$(BIN)/python -m tests.wire.corpus
	$(BIN)/python -m tests.transcripts.corpus

soak: $(READY)  ## Stress each store for ten minutes with eight processes, some of which are killed
	$(BIN)/python -m tests.soak $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

check: $(READY)  ## Run the linters and the type checker, and build the documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	@if command -v npx > /dev/null; then npx --yes --package typescript@7.0.2 tsc -p src/backstory/web/page/jsconfig.json; \
		else echo "The scripts of the page were not checked: that needs npm."; fi
	$(BIN)/hadolint Dockerfile
	$(BIN)/zizmor --quiet --offline .github
	$(MAKE) --no-print-directory docs

docs: $(READY)  ## Build the documentation site into site/; a link that leads nowhere is an error
	$(BIN)/python -m tools.manual docs/commands.md
	$(BIN)/zensical build --strict
	$(BIN)/python -m tools.llms site

format: $(READY)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## Measure speed and size against the bare database drivers (minutes)
	$(BIN)/python -m benchmarks $(if $(JSON),--json $(JSON)) $(ARGS)

bench-adapters: $(ADAPTERS)/.ready  ## Measure the adapters against the frameworks' own stores
	$(ADAPTERS)/bin/python -m benchmarks.adapters $(if $(JSON),--json $(JSON)) $(ARGS)

# Installs the newest release of each library into an environment of its own in .venv-peers.
bench-peers: $(READY)  ## Compare with other libraries (about an hour)
	$(BIN)/python -m benchmarks.peers $(if $(JSON),--json $(JSON)) $(ARGS)

clean:  ## Remove everything that these targets created
	rm -rf .venv .venv-3.* .venv-peers $(CHAT) $(ADAPTERS) $(OLDEST) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .cache dist site
