# Every target creates .venv and installs what it needs by itself.
PYTHON ?= python3
BIN    := .venv/bin
TORCH  := torch==2.13.0
# uv installs in seconds; where it cannot be had, plain pip does the same.
# torch is named in the same command, or a dependency may pull another build of it.
LINKS  := $${PIP_FIND_LINKS:+--find-links "$$PIP_FIND_LINKS"}
install = ($(BIN)/pip install -q uv && \
	$(BIN)/uv pip install -q -p .venv --compile-bytecode $(LINKS) -c constraints.txt $(TORCH) -e '$(1)') || \
	$(BIN)/pip install -c constraints.txt $(TORCH) -e '$(1)'
# Two pytest workers with two OpenMP threads each would be far slower than with one.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

.PHONY: quickstart test test-all lint docs bench clean

quickstart: .venv/.base
	$(BIN)/gnomon quickstart

test: .venv/.dev
	$(PYTEST)

test-all: .venv/.dev
	$(PYTEST) -m 'slow or not slow'

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: .venv/.dev
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/training_speed.py

clean:
	rm -rf .venv site build dist

.venv/bin/pip:
	$(PYTHON) -m venv .venv

.venv/.base: .venv/bin/pip pyproject.toml constraints.txt
	@echo "Installing gnomon into .venv …"
	@$(call install,.)
	@touch $@

.venv/.dev: .venv/bin/pip pyproject.toml constraints.txt
	@echo "Installing gnomon and its development tools into .venv …"
	@$(call install,.[dev])
	@touch $@ .venv/.base

.venv/.docs: .venv/bin/pip pyproject.toml constraints.txt
	@echo "Installing gnomon and the documentation tools into .venv …"
	@$(call install,.[docs])
	@touch $@ .venv/.base
