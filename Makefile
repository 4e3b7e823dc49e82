# Plain venv + pip. Everything lands in $(VENV) and build/, so `make clean` leaves a fresh clone.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
# A constraints file in the environment reaches pip's own sub-processes too; a -c option would not.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install -c constraints.txt

NATIVE := $(shell find native/src native/bindings -name '*.?pp')
SOURCES := pyproject.toml CMakeLists.txt constraints.txt $(NATIVE)

.DELETE_ON_ERROR:
.PHONY: help demo test check lint types layers stubs vectors peers bench docs clean

help:
	@echo 'make demo     show an order, then pack, stream, kill and resume a small dataset'
	@echo 'make test     run every test'
	@echo 'make check    what CI runs: lint, types, layers, tests'
	@echo 'make peers    install the peers, one venv each under bench/; tests of interchange need them'
	@echo 'make bench    measure against the peers (makes one venv each under bench/)'
	@echo 'make docs     build the documentation into site/'
	@echo 'make stubs    write src/tombola/_core.pyi anew from the built extension'
	@echo 'make vectors  add golden vectors for new cases; existing ones never change'
	@echo 'make clean    remove what the above made'

# The stamps are files inside the venv: while what they were made from is unchanged, make does nothing.
$(VENV)/stamp-venv: constraints.txt
	@echo '-- a virtual environment in $(VENV)'
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'tombola needs Python 3.11 or newer; this is $(PYTHON). Try make PYTHON=python3.11'; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) nanobind scikit-build-core cmake ninja
	@touch $@

$(VENV)/stamp-package: $(VENV)/stamp-venv $(SOURCES)
	@echo '-- building the package'
	@$(PIP) --no-build-isolation -C build-dir=$(VENV)/build -e '.[cli]'
	@touch $@

# The package is installed by now, so naming an extra only brings what the extra lists.
$(VENV)/stamp-%: $(VENV)/stamp-package
	@echo '-- installing what $* needs'
	@$(PIP) 'tombola[$*]'
	@touch $@

demo: $(VENV)/stamp-package
	@$(BIN)/python examples/order_demo.py
	@$(BIN)/python examples/stream_demo.py

test: $(VENV)/stamp-test
	@tools/system_packages tests/system-packages.txt
	@$(BIN)/python -m pytest

check: lint types layers test

lint: $(VENV)/stamp-lint
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .

types: $(VENV)/stamp-lint
	@$(BIN)/mypy

layers: $(VENV)/stamp-test
	@$(BIN)/python -m pytest -q tests/project/test_layers.py

stubs: $(VENV)/stamp-package
	@$(BIN)/python -m nanobind.stubgen -m tombola._core -o src/tombola/_core.pyi

vectors: $(VENV)/stamp-package
	@$(BIN)/python tools/write_vectors.py

peers: $(VENV)/stamp-package
	@$(BIN)/python bench/peers.py

bench: $(VENV)/stamp-package $(VENV)/stamp-torch
	@$(BIN)/python bench/peers.py
	@$(BIN)/python bench/order.py
	@$(BIN)/python bench/gather.py
	@$(BIN)/python bench/stream.py
	@$(BIN)/python bench/quality.py
	@$(BIN)/python bench/pipeline.py
	@$(BIN)/python bench/score_speed.py
	@$(BIN)/python bench/score_alarms.py
	@$(BIN)/python bench/mixture.py
	@$(BIN)/python bench/arrays.py

docs: $(VENV)/stamp-docs
	@$(BIN)/python -m mkdocs build --quiet --strict

clean:
	rm -rf .venv bench/.venv-* build dist site demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
