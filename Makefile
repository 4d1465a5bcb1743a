# `make check` and `make test` make .venv and install when needed.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# Tiny models on shared cores: a second OpenMP thread makes the same step many times slower.
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: help install check test test-fast format clean

help:  ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

install: $(VENV)/.installed  ## Make .venv and install the tested set of packages

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

check: install  ## Lint, format, types and import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

test: install  ## Every test that needs no GPU
	$(BIN)/pytest

test-fast: install  ## Unit, golden and numerics tests: under three minutes
	$(BIN)/pytest tests/unit tests/golden tests/numerics

format: install  ## Apply ruff's fixes and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Delete run folders and caches, keep .venv
	rm -rf runs .pytest_cache .ruff_cache .hypothesis
