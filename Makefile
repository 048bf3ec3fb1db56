# Two commands matter: `make demo` and `make test`. Each sets up all that it needs.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-slow test-portable lint bench reference clean components mutants

$(STAMP): pyproject.toml studies/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt pip setuptools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all,dev]" -e studies
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/understudy demo

components:
	scripts/test-components

test: $(STAMP) components lint
	$(BIN)/pytest -n 2

test-slow: $(STAMP) components
	$(BIN)/pytest -n 2 -m slow --timeout=3600

test-portable: $(STAMP) components
	$(BIN)/python scripts/test-portable

mutants: $(STAMP)  # make mutants ROOM="tables dp"; without ROOM all rooms, an hour or more
	$(BIN)/python -W ignore scripts/mutants/run.py $(ROOM) --record

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	for one in bench/*.py; do echo "== $$one"; $(BIN)/python $$one || exit 1; done

reference: $(STAMP)
	scripts/test-components r
	$(BIN)/python tests/reference/make_data.py --extract build/reference
	Rscript scripts/reference.R build/reference
	cd tests/reference && Rscript post_stratified.R

clean:
	rm -rf $(VENV) build demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
