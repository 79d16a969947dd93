# Each target installs what it needs: .venv is built from requirements.txt, and
# .venv-ray from requirements-ray.txt, when that file has changed, and on a fresh
# machine.
SHELL := /bin/sh
PYTHON := .venv/bin/python

# Tests start hundreds of processes, each of which would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-ray run test test-runs test-learning \
  test-benchmarks test-examples test-machines chaos soak fuzz check format \
  bench bench-quick wheel lock clean
.DEFAULT_GOAL := help

help: ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 20

setup: ## Build .venv, which the targets below also do where it is outdated.
	@exec tools/setup.sh

setup-ray: ## Build .venv-ray, for --launch=ray.
	@exec tools/setup.sh ray

run: setup ## Train Ape-X DQN on CartPole; ARGS="--config=..." for more.
	@exec .venv/bin/slipway train $(ARGS)

# Three at a time: tests of processes wait for a sixth of their time.
TESTS := $(PYTHON) -m pytest -n 3 --dist=loadfile --no-loadscope-reorder

test: setup ## Run the tests, all but those of the targets below.
	@exec $(TESTS) $(ARGS)

test-runs: setup ## Train, kill, resume and sweep small runs.
	@exec $(TESTS) -m "runs and not chaos" $(ARGS)

test-learning: setup ## Train on real tasks until a return.
	@exec $(PYTHON) -m pytest -m learning --timeout=1800 $(ARGS)

test-examples: setup ## Run the examples and the commands of the README.
	@exec $(PYTHON) -m pytest -n 2 --dist=loadfile -m examples $(ARGS)

test-benchmarks: setup ## Run each benchmark in small.
	@exec $(PYTHON) -m pytest -n 2 --dist=loadfile -m benchmarks $(ARGS)

test-machines: setup setup-ray ## Run on a Ray cluster of hosts made of namespaces.
	@exec .venv-ray/bin/python -m pytest -m machines --timeout=600 $(ARGS)

chaos: setup ## Kill, stop and damage runs in all ways; they must continue.
	@exec $(PYTHON) -m pytest -n 2 --dist=loadfile -m chaos $(ARGS)

soak: setup ## Train through half an hour of kills and a full disk.
	@exec $(PYTHON) -m pytest -s -m soak $(ARGS)

fuzz: setup ## Give overrides and files of runs 5,000 contents each.
	@FUZZ_EXAMPLES=5000 exec $(PYTHON) -m pytest tests/launch/fuzz_test.py \
	  tests/launch/rpc/fuzz_test.py $(ARGS)

check: setup ## Check the format, the lint and the types.
	@$(PYTHON) -m ruff format --check -q . || \
	  { echo "check: \`make format\` rewrites the files above" >&2; exit 1; }
	@$(PYTHON) -m ruff check -q .
	@mkdir -p build/check && ln -sfn ../.. build/check/slipway
	@exec $(PYTHON) -m basedpyright

format: setup ## Format and sort the imports.
	@$(PYTHON) -m ruff check -q --select I --fix .
	@exec $(PYTHON) -m ruff format -q .

bench: setup ## Measure against the raw libraries and the peers.
	@exec $(PYTHON) -m benchmarks.run $(ARGS)

bench-quick: setup ## Have ratios fallen since those committed? 2 minutes.
	@exec $(PYTHON) -m benchmarks.guard $(ARGS)

wheel: setup ## Build dist/: a wheel, and the lock of what it needs.
	@exec tools/uv.sh build -q --wheel --no-build-isolation \
	  --python $(PYTHON) --out-dir dist
	@$(PYTHON) tools/runtime_lock.py > dist/requirements.txt

lock: ## Resolve requirements.in to requirements.txt.
	@exec tools/lock.sh $(ARGS)

clean: ## Remove what was built; runs/ stays.
	@rm -rf .venv .venv-ray .venv*.before .cache .ruff_cache dist build *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
