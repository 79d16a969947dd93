# Each target installs what it needs: .venv is built from requirements.txt when
# that file has changed, and on a fresh machine; the targets of the checks add
# requirements-dev.txt.
SHELL := /bin/sh
PYTHON := .venv/bin/python

# Tests start hundreds of processes, each of which would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-dev run test test-runs test-learning \
  test-benchmarks test-examples test-machines test-browser chaos soak fuzz check format \
  bench bench-quick wheel lock clean
.DEFAULT_GOAL := help

help: ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 20

setup: ## Build .venv, which the targets below also do; with GPU=1, for a GPU.
	@exec tools/setup.sh

setup-dev: ## Add the packages of the checks and tests to .venv.
	@exec tools/setup.sh dev

run: setup ## Train PPO on CartPole; ARGS="--config=..." for more.
	@exec .venv/bin/slipway train $(ARGS)

# Three at a time: tests of processes wait for a sixth of their time.
TESTS := $(PYTHON) -m pytest -n 3 --dist=loadfile --no-loadscope-reorder

test: setup-dev ## Run the tests, all but those of the targets below.
	@exec $(TESTS) $(ARGS)

test-runs: setup-dev ## Train, kill, resume and sweep small runs.
	@exec $(TESTS) -m "runs and not chaos" $(ARGS)

test-learning: setup-dev ## Train on real tasks until a return.
	@exec $(PYTHON) -m pytest -m learning --timeout=1800 $(ARGS)

test-examples: setup-dev ## Run the examples and the commands of the README.
	@exec $(PYTHON) -m pytest -n 2 --dist=loadfile -m examples $(ARGS)

test-benchmarks: setup-dev ## Run each benchmark in small.
	@exec $(PYTHON) -m pytest -n 2 --dist=loadfile -m benchmarks $(ARGS)

test-browser: setup-dev ## Show the dashboard in Chromium, if there is one.
	@exec $(PYTHON) -m pytest -m browser $(ARGS)

test-machines: setup-dev ## Run on a Ray cluster of hosts made of namespaces.
	@exec $(PYTHON) -m pytest -m machines --timeout=600 $(ARGS)

chaos: setup-dev ## Kill, stop and damage runs in all ways; they must continue.
	@exec $(PYTHON) -m pytest -n 2 --dist=loadfile -m chaos $(ARGS)

soak: setup-dev ## Train through half an hour of kills and a full disk.
	@exec $(PYTHON) -m pytest -s -m soak $(ARGS)

fuzz: setup-dev ## Give overrides and files of runs 5,000 contents each.
	@FUZZ_EXAMPLES=5000 exec $(PYTHON) -m pytest tests/launch/fuzz_test.py \
	  tests/launch/control/calls_fuzz_test.py $(ARGS)

check: setup-dev ## Check the format, the lint and the types.
	@$(PYTHON) -m ruff format --check -q . || \
	  { echo "check: \`make format\` rewrites the files above" >&2; exit 1; }
	@$(PYTHON) -m ruff check -q .
	@mkdir -p build/check && ln -sfn ../.. build/check/slipway
	@exec $(PYTHON) -m basedpyright

format: setup-dev ## Format and sort the imports.
	@$(PYTHON) -m ruff check -q --select I --fix .
	@exec $(PYTHON) -m ruff format -q .

bench: setup-dev ## Measure against the raw libraries and the peers.
	@exec $(PYTHON) -m benchmarks.run $(ARGS)

bench-quick: setup-dev ## Have ratios fallen since those committed? 2 minutes.
	@exec $(PYTHON) -m benchmarks.guard $(ARGS)

wheel: setup ## Build dist/: wheels of Slipway and Launchpad, and the lock.
	@rm -rf dist
	@exec tools/uv.sh build -q --wheel --no-build-isolation \
	  --python $(PYTHON) --out-dir dist
	@$(PYTHON) tools/launchpad_wheel.py dist >/dev/null
	@cp requirements.txt dist/

lock: ## Resolve the requirements*.in to locks.
	@exec tools/lock.sh $(ARGS)

clean: ## Remove what was built; runs/ stays.
	@rm -rf .venv .venv*.before .cache .ruff_cache dist build *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
