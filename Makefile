# Gapless: everything one can do. `make help` prints the lines marked with two hashes.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# The first Python that is new enough, the tested version first.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { command -v "$$p"; break; }; done)

BIN := .venv/bin
READY := .venv/ready

# What soak and bench run; say `make soak DELIVERY=direct SEEDS=0:200` for another choice.
DELIVERY ?= direct
SEEDS ?= 0:2000
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

# How long bench-peers takes each measurement, how often it takes all of them, whom alone, and where it writes them.
SECONDS ?= 6
PAIRS ?= 5
ONLY ?=
PEERS_JSON ?= out/bench-peers.json

.PHONY: help setup demo test check lint fix soak bench bench-layouts bench-peers lock wheel clean

help: ## list everything one can do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## make .venv with the locked dependencies and the project; the others do it by themselves

$(READY): requirements.lock pyproject.toml tools/setup_environment.py
	@test -n "$(PYTHON)" || { echo "setup: Gapless needs Python 3.11 or newer and found none: install it, or name it with 'make PYTHON=/path/to/python3.11'." >&2; exit 1; }
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { echo "setup: there is no Python at $(PYTHON): name one that is there, or leave PYTHON out to have one found." >&2; exit 1; }
	@"$(PYTHON)" tools/setup_environment.py

demo: $(READY) ## an overlay on this machine, brokers killed while you watch, and the verdict at the end
	@$(BIN)/gapless demo

test: lint ## check, then every test
	$(BIN)/python -m pytest

check: lint ## style, types, imports and the rules of the house: what a change must pass before it is looked at
	$(BIN)/python -m pytest -q -m house tests/test_house.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

fix: $(READY) ## put imports and layout right
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

soak: $(READY) ## simulate many worlds with faults (DELIVERY=direct SEEDS=0:2000 JOBS=all cores)
	@$(BIN)/gapless soak $(DELIVERY) --seeds $(SEEDS) --jobs $(JOBS)

bench: $(READY) ## measure this machine, then Gapless on it
	@$(BIN)/gapless bench

bench-layouts: $(READY) ## our layout of a batch beside Arrow's and msgpack, two minutes
	@$(BIN)/python -m bench.layouts

bench-peers: $(READY) ## Gapless and other brokers side by side, about ten minutes (SECONDS=6 PAIRS=5)
	@$(BIN)/python -m bench.peers --seconds $(SECONDS) --pairs $(PAIRS) --only "$(ONLY)" --json $(PEERS_JSON)

lock: $(READY) ## choose the newest allowed dependencies and write requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --upgrade \
		--generate-hashes --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

wheel: $(READY) ## build what is published into dist/
	$(BIN)/python -m build --no-isolation

clean: ## remove what was built and cached; .venv stays
	rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache spark-warehouse metastore_db
	rm -f derby.log
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
