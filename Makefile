# Two commands do everything, set-up included: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench bench-gpu check-long clean

demo: .venv/core
	$(BIN)/python -m cgipool demo

test: lint
	$(BIN)/python -m pytest

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/dev
	$(BIN)/python benchmarks/cpu.py

bench-gpu: .venv/dev
	$(BIN)/python benchmarks/gpu.py

check-long: .venv/dev
	$(BIN)/python -m pytest -m long

.venv/core: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cgipool needs Python 3.11 or later")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/dev: .venv/core
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv build dist runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
