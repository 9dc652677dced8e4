# Everything runs in a virtual environment of its own, made on first use; after that, no network is needed. `make run`
# installs the library; the tests add the development tools when they first run.
PYTHON ?= python3
VENV ?= .venv
READY := $(VENV)/.ready
USABLE := $(VENV)/.usable
# A test that hangs or crashes its process ends the tests; otherwise they might wait forever.
PYTEST := $(VENV)/bin/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0 \
  -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

.PHONY: run test test-all test-browser test-slow mutants lint format benchmark clean

run: $(USABLE)  ## the arm of the paper, 1,000,000 evaluations
	$(VENV)/bin/taskelites run arm --evaluations 1e6

test: $(READY)  ## the core, every algorithm, every promise; five minutes
	$(PYTEST) -m 'not thorough and not slow and not browser'

test-all: $(READY)  ## also simulators, clusters, experiments, the code of the docs, and the report in Chromium
	$(PYTEST) -m 'not slow and not browser'
	$(MAKE) test-browser

test-browser: $(READY)  ## the report in Chromium; without one, a line says so
	$(VENV)/bin/python -m pytest -m browser tests/browser

test-slow: $(READY)  ## what takes minutes: statistics over many seeds
	$(VENV)/bin/python -m pytest -m slow

mutants: $(READY)  ## mistakes planted in a copy of the sources, each of which the tests must catch
	$(VENV)/bin/python tests/mutants.py

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(READY)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

benchmark: $(READY)  ## the figures of docs/performance.md
	$(VENV)/bin/python benchmarks/speed.py
	$(VENV)/bin/python benchmarks/memory.py
	$(VENV)/bin/python benchmarks/quality.py
	$(VENV)/bin/python benchmarks/cma_es.py
	$(VENV)/bin/python benchmarks/prediction.py
	$(VENV)/bin/python benchmarks/report.py
	$(VENV)/bin/python benchmarks/noise.py
	$(VENV)/bin/python benchmarks/cover.py arm
	$(VENV)/bin/python benchmarks/auto.py speed
	$(VENV)/bin/python benchmarks/ahead.py
	$(VENV)/bin/python benchmarks/continuous.py
	$(VENV)/bin/python benchmarks/workers.py
	$(VENV)/bin/python benchmarks/hexapod.py --part chaos overhead  # `speed` and `fidelity` need PyBullet

# The library and its dependencies.
$(USABLE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "taskelites needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) lacks venv; on Debian or Ubuntu: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e .
	touch $(USABLE)

# The development tools.
$(READY): $(USABLE)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
