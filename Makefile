# Every target makes the virtual environment it needs; a second call starts in seconds.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(VENV)/bin
# Modules are compiled when first used: compiling all of PyTorch takes half of an installation's time.
PIP    := pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt

# What mrafno itself needs, and beside it what tests, lint and documentation need.
BASE   := $(VENV)/.base
STAMP  := $(VENV)/.installed

# neuraloperator brings some forty packages, and SMT is needed for a comparison only, so they have their own environment.
BENCH_VENV  ?= build/bench-venv
BENCH_STAMP := $(BENCH_VENV)/.installed

# Nor does mrafno need py-pde and scikit-fem, whose simulators two of the examples use.
SOLVERS_VENV  ?= build/solvers-venv
SOLVERS_STAMP := $(SOLVERS_VENV)/.installed

# The oldest PyTorch that pyproject.toml allows; make test-torch-oldest TORCH=2.8.0 for another one.
TORCH        ?= $(shell sed -n 's/^ *"torch>=\([0-9.]*\)",.*/\1/p' pyproject.toml)
OLDEST_VENV  ?= build/oldest-venv
OLDEST_STAMP := $(OLDEST_VENV)/.torch-$(TORCH)

# Two test processes, one thread each: more would fight over the cores.
export OMP_NUM_THREADS ?= 1

.PHONY: bench-from-nothing help setup examples-solvers bench-layouts bench-pool bench-quick bench-check bench-check-save bench-page bench-paper bench-scaling bench-parallel bench-alternatives bench-estimate bench-regimes reliability test-properties test-slurm bench-soak test-torch-oldest browser bench-limit bench-spread bench-step bench-dashboard demo demo-tasks picture docs bench-ledger bench-driver bench-warm bench-local-correction bench-3d test test-slow lint bench bench-tasks bench-surrogate bench-acquisition test-neuraloperator gallery screenshots accessibility release-check wheel clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

$(BASE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP) --editable .
	@touch $@

$(STAMP): $(BASE)
	$(BIN)/$(PIP) --editable '.[dev]'
	@touch $@

$(BENCH_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/$(PIP) --editable '.[dev,neuraloperator]' 'smt>=2.9'
	@touch $@

setup: $(STAMP)  ## make the virtual environment

browser:  ## install Debian's chromium for the tests in a browser, if it is missing and this can be done
	@found() { command -v chromium || command -v chromium-browser || command -v google-chrome; } > /dev/null; \
	if found; then exit 0; fi; \
	root=; [ "$$(id -u)" = 0 ] || root="sudo -n"; \
	if command -v apt-get > /dev/null && { [ -z "$$root" ] || $$root true 2> /dev/null; }; then \
		echo "There is no chromium: installing Debian's package."; \
		$$root apt-get update --quiet=2; $$root apt-get install --yes --quiet=2 chromium; \
	fi; \
	found || echo "There is no chromium, and it could not be installed here: the tests in a browser will be skipped."

test: $(STAMP) browser  ## run the fast tests
	$(BIN)/pytest --numprocesses 2

test-slow: $(STAMP)  ## run the tests marked slow
	$(BIN)/pytest -m slow

test-properties: $(STAMP)  ## thousands of random sequences of asks, answers, leases, kills, second writers and damage
	MRAFNO_SEQUENCES=$(or $(SEQUENCES),3000) $(BIN)/pytest tests/run/test_properties.py -s

test-slurm: $(STAMP)  ## runs as jobs of a Slurm that is installed (as root) and started on this machine
	@command -v slurmctld slurmd sbatch munged > /dev/null || { apt-get update --quiet=2; \
		DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends \
		slurmctld slurmd slurm-client munge; }
	$(BIN)/pytest -m slow tests/test_slurm.py -s

reliability: $(STAMP)  ## run the tests of docs/reliability.md and write its figures
	$(BIN)/python docs/machinery/reliability.py

lint: $(STAMP)  ## style, imports between rooms, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

demo: $(BASE)  ## learn burgers by choosing inputs and meshes, beside random choice, and write a report
	$(BIN)/python examples/demo.py --out demo

picture: $(STAMP) browser  ## the README's picture: the demo's error against cost
	$(BIN)/python examples/demo.py --out demo
	$(BIN)/python docs/machinery/picture.py demo/report.html docs/pictures/demo.svg

docs: $(STAMP)  ## build the documentation into build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open build/site/index.html in a browser."

demo-tasks: $(BASE)  ## solve every problem on each mesh and write a page of pictures
	$(BIN)/python examples/demo_tasks.py --out demo/tasks.html

bench: bench-tasks bench-surrogate bench-step bench-acquisition bench-ledger bench-driver bench-parallel bench-paper bench-scaling bench-warm bench-policy bench-local-correction bench-3d bench-spread bench-limit bench-layouts bench-pool bench-dashboard bench-soak bench-alternatives bench-page  ## run the benchmarks, and make their page

# What it finds stays in build/, so that the page is of one kind of measurements.
QUICK := $(BIN)/python -m benchmarks.
bench-quick: $(STAMP)  ## run benchmarks for ten minutes; results in build/bench-quick
	$(QUICK)bench_tasks --repeat 1 --out build/bench-quick
	$(QUICK)bench_acquisition --repeat 1 --out build/bench-quick
	$(QUICK)bench_step --count 3 --out build/bench-quick
	$(QUICK)bench_step --count 3 --bfloat16 --out build/bench-quick
	$(QUICK)bench_ledger --repeat 1 --out build/bench-quick
	$(QUICK)bench_driver --queries 50 --rounds 1 --out build/bench-quick
	$(QUICK)bench_scaling --out build/bench-quick
	$(QUICK)bench_parallel --workers 8 --rounds 3 --out build/bench-quick
	$(QUICK)bench_paper burgers --examples 20 --limit 60 --out build/bench-quick

bench-check: $(STAMP)  ## measure a few ratios, and fail if one has become worse than the recorded one by more than 25 %
	@$(BIN)/python -m benchmarks.bench_check

bench-check-save: $(STAMP)  ## record these ratios
	$(BIN)/python -m benchmarks.bench_check --save
	$(BIN)/python docs/machinery/benchmarks.py

bench-page: $(STAMP)  ## make docs/benchmarks.md of the results
	$(BIN)/python docs/machinery/benchmarks.py

bench-paper: $(STAMP)  ## a step as the paper computes it, beside a step of a run
	$(BIN)/python -m benchmarks.bench_paper

bench-scaling: $(STAMP)  ## how time and memory grow
	$(BIN)/python -m benchmarks.bench_scaling

bench-parallel: $(STAMP)  ## simulations that wait, with 1 to 16 workers
	$(BIN)/python -m benchmarks.bench_parallel
	$(BIN)/python -m benchmarks.bench_parallel --dask
	$(BIN)/python -m benchmarks.bench_queries

bench-alternatives: $(BENCH_STAMP)  ## what a user would pick instead
	$(BENCH_VENV)/bin/python -m benchmarks.bench_alternatives

bench-tasks: $(STAMP)
	$(BIN)/python -m benchmarks.bench_tasks

bench-surrogate: $(BENCH_STAMP)
	$(BENCH_VENV)/bin/python -m benchmarks.bench_surrogate

bench-step: $(STAMP)  ## where the time of a training step goes
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench_step
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench_step --bfloat16

bench-acquisition: $(STAMP)
	$(BIN)/python -m benchmarks.bench_acquisition

bench-warm: $(STAMP)
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks.bench_warm

bench-local-correction: $(STAMP)
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks.bench_local_correction

bench-3d: $(STAMP)
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks.bench_3d

bench-policy: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench_policy

bench-estimate: $(STAMP)  ## how often runs are right about their own error
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench_estimate

bench-regimes: $(STAMP)  ## methods on small problems of every kind, three seeds: a day on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.regimes

bench-from-nothing: $(STAMP)  ## burgers, darcy and diffusion from nothing, three seeds
	for task in burgers darcy diffusion; do OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks.bench_from_nothing $$task || exit 1; done

bench-spread: $(STAMP)
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks.bench_spread

bench-limit: $(STAMP)
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks.bench_limit

bench-layouts: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.bench_layouts

bench-pool: $(STAMP)  ## memory and time of a choice from large pools, and what a choice from a part is worth
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks.bench_pool
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks.bench_pool --part

bench-dashboard: $(STAMP)
	$(BIN)/python -m benchmarks.bench_dashboard

bench-soak: $(STAMP)  ## a run of 10,000 steps: time per step, memory, files and bytes
	$(BIN)/python -m benchmarks.bench_soak

bench-ledger: $(STAMP)
	$(BIN)/python -m benchmarks.bench_ledger

bench-driver: $(STAMP)
	$(BIN)/python -m benchmarks.bench_driver

# PyPI's wheels of older versions of PyTorch bring CUDA libraries of several GB, so they have an environment of their own.
$(OLDEST_STAMP): pyproject.toml
	$(PYTHON) -m venv --clear $(OLDEST_VENV)
	$(OLDEST_VENV)/bin/pip install --quiet --no-compile --disable-pip-version-check --editable . torch==$(TORCH) pytest
	@touch $@

test-torch-oldest: $(OLDEST_STAMP)  ## run the surrogate's tests on the oldest PyTorch that pyproject.toml allows
	$(OLDEST_VENV)/bin/python -c 'import torch; print("PyTorch", torch.__version__)'
	$(OLDEST_VENV)/bin/pytest tests/surrogate

$(SOLVERS_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SOLVERS_VENV)
	$(SOLVERS_VENV)/bin/$(PIP) --editable '.[solvers]' pytest
	@touch $@

examples-solvers: $(SOLVERS_STAMP)  ## install py-pde and scikit-fem in an environment of their own, and run their examples
	$(SOLVERS_VENV)/bin/pytest tests/test_examples_folder.py -k "py_pde or scikit_fem"

test-neuraloperator: $(BENCH_STAMP)  ## run the adapter's tests with neuraloperator installed
	$(BENCH_VENV)/bin/pytest tests/surrogate/operator/test_adapters.py

gallery: $(STAMP)  ## run the examples of the gallery and draw their pictures
	for name in own_simulator fields_2d fields_3d parameters table external_program dask_cluster; do \
		$(BIN)/python examples/$$name.py --picture docs/pictures/gallery-$$name.svg || exit 1; \
	done

screenshots: $(STAMP) browser  ## pictures of every page, wide and narrow, light and dark, in build/screenshots
	$(BIN)/python -m benchmarks.screenshots --out build/screenshots

# axe-core finds what keeps people from using a page; it is needed for this check only.
build/axe/node_modules/axe-core/axe.min.js: tests/axe/package.json
	mkdir -p build/axe && cp tests/axe/package.json tests/axe/package-lock.json build/axe/ && cd build/axe && npm ci --silent

accessibility: $(STAMP) browser build/axe/node_modules/axe-core/axe.min.js  ## check all pages with axe-core (needs npm)
	AXE=$(CURDIR)/build/axe/node_modules/axe-core/axe.min.js $(BIN)/pytest tests/dashboard/test_accessibility.py

release-check: $(STAMP)  ## build sdist and wheel, check their metadata, install the sdist on the oldest and newest Python
	rm -rf build/release && $(BIN)/python -m build --outdir build/release
	$(BIN)/twine check --strict build/release/*
	$(BIN)/python docs/machinery/release_check.py build/release

wheel: $(STAMP)  ## build the wheel, install it in an environment of its own, run it
	rm -rf build/wheel && $(BIN)/python -m build --wheel --outdir build/wheel
	$(PYTHON) -m venv --clear build/wheel-venv
	build/wheel-venv/bin/$(PIP) build/wheel/*.whl
	build/wheel-venv/bin/mrafno --version

clean:  ## remove everything the targets made
	rm -rf $(VENV) build dist demo .pytest_cache .ruff_cache .mypy_cache
