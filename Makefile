# Two commands matter: `make demo` and `make test`. Each sets up all that it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo-installed
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo check test suite test-slow test-portable lint style types architecture bench bench-quick reference clean components mutants fresh

$(STAMP): pyproject.toml studies/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) pip setuptools
	$(INSTALL) -e ".[all,dev]" -e studies
	touch $(STAMP) $(DEMO)

# The demonstration asks a server one question, so it needs the extra `server` and nothing else.
# Byte code is made when a module is first used: for all that is installed it takes as long as half
# of the installation, and 180 MB.
$(DEMO): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) pip setuptools
	$(INSTALL) --no-compile -e ".[server]"
	touch $(DEMO)

demo: $(DEMO)
	$(BIN)/understudy demo

components:
	scripts/test-components

# Compiled programs of the tests are kept in the work tree; each of two workers has one core.
check test test-slow: export JAX_COMPILATION_CACHE_DIR := $(CURDIR)/.cache/programs
check test test-slow: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0
check test test-slow: export OMP_NUM_THREADS := 1
check test test-slow: export POLARS_MAX_THREADS := 1
# Asserts are rewritten once and not in every process of every run, also where Python is told otherwise.
check test test-slow: export PYTHONDONTWRITEBYTECODE :=
check test test-slow: export OPENBLAS_NUM_THREADS := 1
# Sampler programs say themselves how they are compiled (models/compilation); the many small ones
# that a test asks for once are not worth optimising.
check test test-slow test-portable: export XLA_FLAGS := --xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1

check: $(STAMP) style  # then types beside the architecture, then the tests of what changed
	$(MAKE) --no-print-directory -j 2 types architecture
	$(BIN)/python scripts/changed-tests

architecture: $(STAMP)
	$(BIN)/pytest -n0 tests/architecture

test: $(STAMP) components style  # types are checked while the tests run
	$(MAKE) --no-print-directory -j 2 types suite

suite:
	$(BIN)/pytest -n 3 --dist worksteal --durations=10

test-slow: $(STAMP) components
	$(BIN)/pytest -n 2 -m "slow or hypothesis" --hypothesis-profile=random --timeout=3600

test-portable: $(STAMP) components
	$(BIN)/python scripts/test-portable

mutants: $(STAMP)  # make mutants ROOM="tables dp"; without ROOM all rooms, an hour or more
	$(BIN)/python -W ignore scripts/mutants/run.py $(ROOM) --record

fresh:  # the README's two commands on a Debian root that has nothing of ours; needs root
	scripts/fresh-machine

lint: style types

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# Every case beside its peers, into bench/results.json and the README's table; a part of it with
# ONLY="table risk". Peers that are not installed (scripts/bench-components) are "not run".
bench: $(STAMP)
	$(BIN)/python -m bench --only $(ONLY)

bench-quick: $(STAMP)  # small sizes, two repeats: whether it runs, not how fast
	$(BIN)/python -m bench --quick --only $(ONLY)

reference: $(STAMP)
	scripts/test-components r
	$(BIN)/python tests/reference/make_data.py --extract build/reference
	Rscript scripts/reference.R build/reference
	cd tests/reference && for program in *.R; do Rscript $$program || exit 1; done

clean:
	rm -rf $(VENV) build demo-out .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
