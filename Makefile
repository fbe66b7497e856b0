# Every target works from a bare checkout: what it needs is installed into .venv on first use,
# and again when the files that list it change. Nothing needs root.

PYTHON ?= python3
PYTEST_ARGS ?=
# Tests wait for processes and disks part of their time.
PROCESSES ?= $(shell expr 1 + $$(nproc))
LONG_PROCESSES ?= $(shell nproc)
PARTS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := -m pip -qq --disable-pip-version-check install
# What was tested: these versions and these files, none of them built here.
PINNED := --require-hashes --only-binary :all: --requirement
# The program itself, without what it needs.
ITSELF := --no-deps --no-build-isolation --editable .
RUN_READY := $(VENV)/.installed
DEV_READY := $(VENV)/.installed-dev
BINARY_VENV := .venv-binary
BINARY_READY := $(BINARY_VENV)/.installed
DEMO := $(CURDIR)/.demo

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test test-samples test-system test-postgres test-pythons check bench bench-intake bench-peers screenshots findings pins binary release clean

help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' Makefile | expand -t 20
	@echo
	@echo 'PYTHON=python3.12 chooses the interpreter, PYTEST_ARGS="-k bulk" narrows the tests.'

run: export VERIFYD_DATABASE_URL := sqlite:///$(DEMO)/verifyd.db
run: export VERIFYD_MOT_FIRST_YEARS ?= 3
run: export VERIFYD_COMPLETE_REGISTERS ?= demo
run: export VERIFYD_CONSOLE ?= on
run: export VERIFYD_AUDIT ?= on
run: $(RUN_READY) ## Serve a demo on 127.0.0.1:8000, with keys and curl lines to try
	@exec $(BIN)/verifyd demo --serve

# Every process that a test starts would compile the program again.
test test-samples test-system: export PYTHONDONTWRITEBYTECODE :=

test: $(DEV_READY) ## Run the tests of every change
	@$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal -o faulthandler_timeout=900 $(PYTEST_ARGS)

test-samples test-system: export HYPOTHESIS_PROFILE := thorough
test-samples: $(DEV_READY) $(BINARY_READY) ## Run one test of each kind of test-system
	@$(BIN)/python -m pytest -m 'sample and (system_long or hypothesis)' $(PYTEST_ARGS)

test-system: $(DEV_READY) $(BINARY_READY) ## Run all other tests: memory, hostile input, Postgres, browser, machine, kills
	@$(BIN)/python -m pytest --numprocesses $(LONG_PROCESSES) --dist worksteal -m 'system_long or hypothesis' $(PYTEST_ARGS)

test-pythons: $(DEV_READY) ## Run the tests of every change with each Python; part of test-system
	@$(BIN)/python -m pytest -m system_long tests/system/test_pythons.py $(PYTEST_ARGS)

test-postgres: $(DEV_READY) ## Run the tests with PgBouncer, Patroni and other Postgres; part of test-system
	@$(BIN)/python -m pytest -m '' tests/unit/test_postgres.py tests/unit/test_poolers.py tests/unit/test_logical_replication.py \
	    tests/system/test_poolers.py tests/system/test_lagging_standby.py tests/system/test_patroni.py \
	    tests/system/test_postgres_versions.py $(PYTEST_ARGS)

check: $(DEV_READY) ## Check lint, format, types and import contracts
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(DEV_READY) ## Measure the hot path
	@$(BIN)/python -m tests.bench

bench-intake: ROWS ?= 4000000
bench-intake: $(DEV_READY) ## Measure loads of register files, ROWS=4000000 each
	@$(BIN)/python -m tests.bench.intake --rows $(ROWS) $(PARTS)

bench-peers: ROWS ?= 1000000
bench-peers: $(DEV_READY) ## Compare verifyd with other stacks, ROWS=1000000 vehicles
	@mkdir -p build
	@$(BIN)/python -m tests.bench.peers --rows $(ROWS) --json build/bench-peers.json --svg build/bench-peers.svg \
	    $(if $(BEFORE),--before $(BEFORE)) $(if $(BENCH_PYTHON),--python $(BENCH_PYTHON)) $(PARTS)

screenshots: $(DEV_READY) ## Draw the pictures of the console in the pages
	@$(BIN)/python -m tests.system.screenshots

findings: ## Try what is known of other programs: one line for each, status 1 if one has changed
	@failed=0; for script in findings/*.sh; do \
	    status=0; $$script >/dev/null 2>&1 </dev/null || status=$$?; \
	    case $$status in \
	        0) result='as described' ;; \
	        77) result='could not run' ;; \
	        *) result=changed; failed=1 ;; \
	    esac; \
	    printf '%-14s%s\n' "$$result" "$$(basename "$$script" .sh)"; \
	done; exit $$failed

pins: PIN = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
    --no-emit-index-url --custom-compile-command 'make pins' $(if $(UPGRADE),--upgrade) \
    setup.cfg --extra postgres --group build
pins: $(DEV_READY) ## Pin dependencies that were added; with UPGRADE=1 all at their newest versions
	@$(PIN) --output-file deploy/requirements.txt
	@$(PIN) --group dev --constraint deploy/requirements.txt --output-file tests/requirements.txt
	@$(PIN) --group binary --constraint tests/requirements.txt --output-file deploy/binary/requirements.txt

binary: $(BINARY_READY) ## Build dist/verifyd, one file with everything in it, its SBOM and licences
	@deploy/binary/build.sh $(BINARY_VENV)/bin

release: $(BINARY_READY) ## Build the release of a clean commit into dist/; SIGN_KEY=FILE signs it
	@deploy/binary/release.sh $(BINARY_VENV)/bin $(if $(SIGN_KEY),'$(SIGN_KEY)')

clean: ## Remove everything that make made, the demo's data too
	@rm -rf $(VENV) .venv-3.* $(BINARY_VENV) '$(DEMO)' .peers .system-tests build dist *.egg-info .*_cache .hypothesis .schemathesis
	@find app tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v '$(PYTHON)' >/dev/null || { \
	    echo "verifyd: '$(PYTHON)' is not there. Install Python 3.11 or newer," \
	        "or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "verifyd: needs Python 3.11 or newer, and '$(PYTHON)' is $$('$(PYTHON)' -V 2>&1)." \
	        "Name another: make PYTHON=python3.12" >&2; exit 1; }
	@'$(PYTHON)' -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "verifyd: '$(PYTHON)' cannot make virtual environments." \
	        "On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo 'Making the environment in $(VENV) ...'
	@'$(PYTHON)' -m venv --clear $(VENV)

$(RUN_READY): deploy/requirements.txt setup.cfg pyproject.toml | $(BIN)/python
	@echo 'Installing what the service needs ...'
	@$(BIN)/python $(PIP_INSTALL) $(PINNED) deploy/requirements.txt
	@$(BIN)/python $(PIP_INSTALL) $(ITSELF)
	@touch $@

$(DEV_READY): tests/requirements.txt setup.cfg pyproject.toml | $(BIN)/python
	@echo 'Installing what the service, its tests and checks need ...'
	@$(BIN)/python $(PIP_INSTALL) $(PINNED) tests/requirements.txt
	@$(BIN)/python $(PIP_INSTALL) $(ITSELF)
	@touch $(RUN_READY) $@

# An environment of its own, made anew: nothing but what is listed may get into the binary.
$(BINARY_READY): deploy/binary/requirements.txt | $(BIN)/python
	@echo 'Installing what the binary is made of ...'
	@$(BIN)/python -m venv --clear $(BINARY_VENV)
	@$(BINARY_VENV)/bin/python $(PIP_INSTALL) $(PINNED) deploy/binary/requirements.txt
	@touch $@
