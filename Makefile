# Two commands do everything, set-up included: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
install-locked = if $(BIN)/python tools/lock.py fits; then \
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement $(1); fi

.PHONY: demo test lint browser docs report recount check-wheel bench bench-gpu check-long fuzz clean

demo: .venv/core
	$(BIN)/python -m cgipool demo

# Two processes of one thread each: on two cores they take two thirds of the time of one with two.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tests of the report open it in Chromium and skip where there is none; this installs Debian's.
browser:
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then \
		echo "no apt-get here: install Chromium by other means, so that 'chromium' is on the PATH" >&2; exit 1; \
	fi; \
	root=; \
	if [ "$$(id -u)" != 0 ]; then \
		if ! command -v sudo >/dev/null; then echo "installing Chromium needs root or sudo" >&2; exit 1; fi; \
		root=sudo; \
	fi; \
	$$root apt-get update -qq && $$root apt-get install -y -qq --no-install-recommends chromium

docs: .venv/dev
	$(BIN)/python -m mkdocs build --strict

# Tables and figures of README and docs, made anew from results/. A test fails when they differ.
report: .venv/dev
	$(BIN)/python tools/results.py

# The numbers of README and docs, computed from results/ once more by a program that shares no code with the package.
recount: .venv/dev
	$(BIN)/python tools/recount.py

# The wheel, in an environment that has nothing of this checkout.
check-wheel: .venv/core
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/wheel/env
	build/wheel/env/bin/python -m pip install --quiet --constraint constraints.txt build/wheel/*.whl
	cd build/wheel && env/bin/cgipool --version && env/bin/cgipool methods && \
		env/bin/cgipool study --help > /dev/null && \
		env/bin/cgipool compare motifs --methods topk,none --splits 2 --set width=8 --set epochs=2

bench: .venv/dev
	$(BIN)/python benchmarks/cpu.py

bench-gpu: .venv/dev
	$(BIN)/python benchmarks/gpu.py

check-long: .venv/dev
	$(BIN)/python -m pytest -m long

# Some 5,000 damaged files and a death at every file event, minutes on two cores; make fuzz FUZZ="--seed 1" runs others.
fuzz: .venv/dev
	$(BIN)/python -m fuzz $(FUZZ)
	$(BIN)/python -m fuzz.crash

# Where the lock files fit (tools/lock.py), everything but torch is installed by hash; elsewhere by version alone.
.venv/core: pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cgipool needs Python 3.11 or later")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(call install-locked,requirements.lock)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/dev: .venv/core requirements-dev.lock
	$(call install-locked,requirements-dev.lock)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# For benchmarks/chemprop.py alone: chemprop needs other versions of RDKit than the lock files have.
.venv-chemprop: constraints.txt
	$(PYTHON) -m venv $@
	grep '^torch==' constraints.txt > $@/constraints.txt
	$@/bin/python -m pip install --quiet --constraint $@/constraints.txt chemprop==2.3.1
	touch $@

clean:
	rm -rf .venv .venv-chemprop build dist runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
