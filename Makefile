# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format lab e2e differential differential-runtime lock clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort | expand -t 22

# Hashes in the lock pin every file; the project itself is installed without asking an index again.
$(STAMP): requirements/lock.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/lock.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(STAMP) ## Create .venv from the lock file

demo: $(STAMP) ## Watch the first incident being seen, explained and healed, without GPU or cluster
	@$(BIN)/python -m tests.demo

test: $(STAMP) ## Run every test this machine can run (lab tests say why they are skipped)
	$(BIN)/python -m pytest -m "not e2e"

lint: $(STAMP) ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Let ruff format and mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lab: $(STAMP) ## Build and cache the lab's programs (needs Go; installs Debian packages as root)
	$(BIN)/python -m tests.lab.build

e2e: lab ## The incident on a one-node cluster with the real runtime and kubelet
	$(BIN)/python -m pytest -m e2e

# N trees (or combinations) a version; SEED is printed by the run that found a difference.
N ?= 2000
SEED ?= 0

differential: lab ## Compare the CDI library with the Go library over N generated trees a version
	$(BIN)/python -m tests.differential.cdi --n $(N) --seed $(SEED)

differential-runtime: lab ## Compare predictions with the real nvidia-container-runtime, N times
	$(BIN)/python -m tests.differential_runtime --n $(N) --seed $(SEED)

lock: ## Renew requirements/lock.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --universal --python-version 3.11 --all-extras --group dev \
	  --generate-hashes --no-header --no-annotate -o requirements/lock.txt pyproject.toml

clean: ## Remove what `make` made here (not the lab's cache)
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
