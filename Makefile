# Set-up, demo and tests. Everything lives in .venv; nothing outside this folder is changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= out/llama-3.1-405b

.PHONY: install demo test test-consumers lint bench clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[test]'
	touch $@

install: $(VENV)/.installed

demo: install
	$(BIN)/autotune search examples/clusters/h100-rail-1024.yaml examples/models/llama-3.1-405b.yaml --target megatron,deepspeed --out $(OUT) --force

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2

test-consumers: $(VENV)/.installed-test
	bash scripts/setup_consumers.sh
	$(BIN)/python -m pytest tests/consumers

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: install
	$(BIN)/autotune bench

clean:
	rm -rf $(VENV) .venv-consumers out
