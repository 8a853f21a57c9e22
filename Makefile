# Everything happens in .venv. torch comes first: what depends on it must find that build and no other.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: parity test lint types speed slow bench goldens clean

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

parity: .venv/ready  ## record our implementation on every golden case, judge it, write a report
	$(BIN)/qwen3-parity parity

test: .venv/ready lint types speed  ## what CI runs: two files of tests at a time, one thread each
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: .venv/ready
	$(BIN)/mypy

speed: .venv/ready  ## of the benchmarks those that CI asks for, alone on the machine: network beside Hugging Face's
	$(BIN)/python -m pytest -m bench -s --benchmark-disable -k "a_twentieth or (encoding_is and float32 and all_cores and 4)" tests/benchmarks/test_bench_model.py

slow: .venv/ready  ## minutes, not seconds: real sizes, other kernels
	$(BIN)/python -m pytest -m slow -s

bench: .venv/ready  ## ratios of timings within one run
	$(BIN)/python -m pytest -m bench -s --benchmark-only tests/benchmarks

goldens: .venv/ready  ## record the reference again and compare it with what is committed; changes nothing
	$(BIN)/qwen3-parity regenerate --check

clean:
	rm -rf .venv build
