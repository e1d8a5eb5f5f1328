# Everything runs from here; only Python 3.11 or newer and make are assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: fuzz help install demo install-vllm real-pair real-curve test test-vllm chaos million idle-streams policy-study lint types contracts check format lock lock-vllm clean

help:  ## say what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 24

$(STAMP): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Breakeven needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make install PYTHON=python3.12")'
	@echo "installing the locked dependencies into $(VENV) (about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable .
	@touch $(STAMP)

install: $(STAMP)  ## create .venv with the locked dependencies

demo: install  ## simulated engines, the router, a mixed load: what routing gains and where it loses
	@$(BIN)/breakeven-bench demo

install-vllm: install  ## real vLLM on this CPU, with a small model and head, into .venv-vllm (4 GB, ten minutes)
	@$(BIN)/breakeven-bench install-vllm $(ARGS)

real-pair: install  ## a real plain and a real EAGLE-3 engine behind the router, until Ctrl-C (after make install-vllm)
	@$(BIN)/breakeven-bench real-pair $(ARGS)

real-curve: install  ## measure on real engines what speculation yields and where it pays (20 minutes; ARGS=--quick: 3)
	@$(BIN)/breakeven-bench real-curve $(ARGS)

test: install  ## every test
	$(BIN)/python -m pytest $(ARGS)

test-vllm: install  ## the contract tests against real vLLM on this CPU (ten minutes and more; after make install-vllm)
	$(BIN)/python -m pytest tests/contract tests/house/test_vllm_commands.py -m vllm $(ARGS)

fuzz: install  ## feed what reads bytes of strangers, guided by coverage (a minute each; ARGS="--seconds 300 --target rename")
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade --target .venv-fuzz \
	  --requirement tests/fuzz/atheris.lock
	@PYTHONPATH=.venv-fuzz $(BIN)/python -m tests.fuzz.coverage_guided $(ARGS)

chaos: install  ## kill, freeze, restart and slow engines under load for ten minutes (ARGS="--seconds 60 --seed 7")
	@$(BIN)/python -m tests.system.chaos.run $(ARGS)

million: install  ## a million requests on one worker: nothing may grow (minutes; ARGS="--requests 100000")
	@$(BIN)/python -m tests.system.endurance.million $(ARGS)

idle-streams: install  ## 9,000 streams at once: what one costs in memory (a minute; ARGS="--streams 1000")
	@$(BIN)/python -m tests.system.endurance.idle_streams $(ARGS)

policy-study: install  ## judge the policies on simulated fleets and renew policies/README.md (an hour; ARGS="--trace FILE")
	@for world in falls flat domain drifts long; do \
	  for pair in plain-k5 plain-k3 plain-dynamic two-k3 four-pools; do echo "$$world $$pair" >&2; \
	    $(BIN)/breakeven-bench simulate --pair $$pair --world $$world --capacity --scenarios $(ARGS) \
	      --out docs/data/policies/$$pair-$$world.json >/dev/null || exit 1; done; done
	@$(BIN)/breakeven-bench simulate --from docs/data/policies/*.json --page policies/README.md >/dev/null

lint: install  ## ruff: style, bugs, banned calls
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install  ## mypy, strict
	$(BIN)/mypy

contracts: install  ## import-linter: who may import whom
	$(BIN)/lint-imports

check: lint types contracts test  ## all of the above

format: install  ## rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock-vllm: install  ## resolve what .venv-vllm holds (needs uv); torch is not among it
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --no-annotate --override bench/vllm_packages/overrides.txt --no-emit-package torch --no-emit-package torchaudio \
	  --no-emit-package torchcodec --no-emit-package torchvision bench/vllm_packages/packages.in -o bench/vllm_packages/packages.lock

lock: install  ## resolve the dependencies anew (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --extra bench --extra otel --group dev pyproject.toml -o requirements-dev.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --extra otel --constraints requirements-dev.lock pyproject.toml -o requirements.lock

clean:  ## remove what was built here
	rm -rf $(VENV) dist results .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
