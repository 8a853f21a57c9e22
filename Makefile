# Everything happens in .venv. torch comes first: what depends on it must find that build and no other.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: parity test check tests lint types slow bench goldens clean

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

parity: .venv/ready  ## record our implementation on every golden case, judge it, write a report
	$(BIN)/qwen3-parity parity

test: .venv/ready  ## what CI runs: lint and types beside two processes of tests, one thread each
	@$(MAKE) --no-print-directory --jobs=2 --keep-going check tests

check: lint types

tests: .venv/ready
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: .venv/ready
	$(BIN)/mypy

slow: .venv/ready  ## minutes, not seconds: real sizes, other kernels
	$(BIN)/python -m pytest -m slow -s

bench: .venv/ready  ## ratios of timings within one run, printed beside what was hoped for
	$(BIN)/python -m pytest -m bench -s --benchmark-only tests/benchmarks

goldens: .venv/ready  ## record the reference again and compare it with what is committed; changes nothing
	$(BIN)/qwen3-parity regenerate --check

clean:
	rm -rf .venv build
