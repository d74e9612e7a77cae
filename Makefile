PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Two cores at most: more torch threads than free cores are an order of magnitude slower.
export OMP_NUM_THREADS ?= 1

.PHONY: install test lint types bench clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

test: install lint types
	$(BIN)/pytest -n 2 --dist worksteal

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: install
	$(BIN)/mypy

bench: install
	$(BIN)/python benchmarks/$(NAME).py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
