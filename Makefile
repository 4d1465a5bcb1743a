# `make check` and `make test` make .venv and install when needed.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# Tiny models on shared cores: a second OpenMP thread makes the same step many times slower.
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: help install demo demo-seeds check test test-fast test-slurm test-browser format clean

help:  ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

install: $(VENV)/.installed  ## Make .venv and install the tested set of packages

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install  ## Everything once on a laptop: toy videos -> SFT -> GSPO -> runs/demo/report.html
	$(BIN)/proact demo --out runs/demo

demo-seeds: install  ## The same with GSPO under three seeds, for the spread
	$(BIN)/proact demo --out runs/demo --rl-seeds 0 1 2

check: install  ## Lint, format, types and import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo

test: install  ## Every test that needs no GPU
	$(BIN)/pytest

test-fast: install  ## Unit, golden and numerics tests: under three minutes
	$(BIN)/pytest tests/unit tests/golden tests/numerics

test-slurm: install  ## Train through slurm/train.sbatch on a real two-node Slurm on loopback
	@command -v slurmctld munged >/dev/null || { echo "no Slurm: apt-get install -y --no-install-recommends slurm-wlm munge" >&2; exit 2; }
	$(BIN)/pytest tests/slurm -m slurm

test-browser: install  ## Open the report in Chromium, at the width of a desktop and of a phone
	@command -v chromium >/dev/null || { echo "no Chromium: apt-get install -y --no-install-recommends chromium" >&2; exit 2; }
	$(BIN)/pytest tests/integration -m browser

format: install  ## Apply ruff's fixes and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Delete run folders and caches, keep .venv
	rm -rf runs .pytest_cache .ruff_cache .hypothesis
