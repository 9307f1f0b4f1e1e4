# Every target sets up .venv by itself; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --disable-pip-version-check --constraint constraints.txt
RUN := $(BIN)/python -m labeldp_bench
# Where it is set, each of the tests' hundreds of processes compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run test test-cluster lint format data collect reproduce-tables reproduce-figures status report docs clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

install: $(VENV)/.installed  ## create .venv and install the package with the tested versions

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): a minute or more, most of it torch"
	$(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(PIP) --editable '.[test]'
	@touch $@

$(VENV)/.lint: $(VENV)/.installed
	$(PIP) --editable '.[lint]'
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	$(PIP) --editable '.[docs]'
	@touch $@

run: $(VENV)/.installed  ## the quickstart: RAPPOR, RR, no privacy and the Bayes limit on the circle
	$(RUN) experiment=quickstart

test: $(VENV)/.test  ## the whole test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

test-cluster: $(VENV)/.test  ## sweeps on real launchers; each skips, and says so, where it is not installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs tests/labeldp_bench/cli/test_launchers.py

lint: $(VENV)/.lint  ## format check, lint, type check, spelling, layers of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/codespell README.md CHANGELOG.md docs configs labeldp labeldp_bench papers scripts benchmarks
	$(BIN)/lint-imports

format: $(VENV)/.lint  ## format and mend what can be mended by itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

data: $(VENV)/.installed  ## bring every data set that can be had into LABELDP_DATA, else data/
	$(BIN)/python scripts/get_data.py

reproduce-tables: $(VENV)/.installed  ## every table of the papers from the committed records; no training
	$(BIN)/python scripts/reproduce_tables.py

reproduce-figures: $(VENV)/.installed  ## every figure of papers, findings and docs from the committed records; no training
	$(BIN)/python scripts/reproduce_figures.py

status: $(VENV)/.installed  ## experiments: cells done, failed, missing, hours on this device, commands
	$(BIN)/python scripts/status.py

report: $(VENV)/.installed  ## results/report.html, one page
	$(BIN)/python scripts/report.py

docs: $(VENV)/.docs  ## the site, into build/site; refuses broken links
	$(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html"

collect: $(VENV)/.installed  ## merge the records of results/runs into results/records.csv
	$(BIN)/python scripts/collect.py

clean:  ## remove the environment and caches; runs and data stay
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
