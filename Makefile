# make demo: see it work.  make test: lint, types, tests.  Both create .venv and install into it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
.DEFAULT_GOAL := help

.PHONY: help demo test lint types format clean

help:
	@sed -n '1s/^# //p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 10) <= v <= (3, 13) else \
	  "itrstress needs Python 3.10 to 3.13, found %d.%d; name another: make PYTHON=python3.12 ..." % v)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BIN)/python setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet -e .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python -m pip install --quiet -e '.[test]'
	@touch $@

demo: $(VENV)/installed
	$(BIN)/itrstress demo

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/installed-test
	$(BIN)/mypy

test: lint types
	$(BIN)/python -m pytest

format: $(VENV)/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
