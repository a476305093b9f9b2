# A clean machine needs Python 3.11 or newer, git, make and a C++ compiler. Nothing is installed outside this folder.
#
#   make run         build the small default stack, check it, train on it for a moment
#   make check-fast  lint and the tests that need no torch, no venv, no compiler and no command: for every edit
#   make test        lint and test; what CI runs
#   make lint        ruff and mypy alone
#   make properties  the property tests with other examples in each run
#   make test-giants hostile inputs that take long to make or to read, and every value where `make test` draws some
#   make fuzz        mutated files for every reader, others in each run; FUZZ_ARGUMENTS="--each 50000 --keep" for more
#   make test-stack  the incident on the real CUDA stack, healthy ones (downloads about 9 GB), and launchers that take long
#   make bench       envdoctor beside pip, uv and collect_env; VENV=path names another venv, PROFILE=name adds the gate
#   make docs        write docs/checks, docs/symptoms.md and docs/envdoctor.1 from what envdoctor knows
#   make site        the documentation with a search, made of docs/ and the program, into build/site-docs
#   make release     build, check and test what is published, from the last commit, into dist/
#   make clean       remove what the targets above made

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Calling each one is the only proof that it works: a shim can be on PATH without a Python behind it.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$python"; break; }; done)
# make's own default for CXX is not somebody's wish.
CXX_FOUND := $(shell command -v "$(if $(filter default,$(origin CXX)),c++,$(CXX))" || command -v g++ || command -v clang++)

# The tool starts from its own bytecode; an inherited "write none" would make every command compile it again.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export UV_PYTHON_DOWNLOADS := never

TOOL := .venv
TRAIN := .venv-train
TEST := .venv-test
FAST := .venv-fast
SMOKE := profiles/cpu-smoke.toml lockfiles/cpu-smoke.txt
VENV ?= $(TRAIN)
RUN_ARGUMENTS ?=
FUZZ_ARGUMENTS ?=

# The tests of a file stay together, since they share fixtures. Of all tests many wait (for an index that stalls, a
# launcher, a process that was killed), so that one worker more than there are cores keeps these busy.
PARALLEL := --dist loadfile --no-loadscope-reorder --numprocesses
WORKERS := $$(( $$(getconf _NPROCESSORS_ONLN) + 1 ))

.PHONY: help run check-fast test lint properties test-giants fuzz test-stack bench docs site release committed clean toolchain

help:
	@sed -n 's/^#   //p' Makefile

toolchain:
	@if [ -z "$(PYTHON)" ]; then \
		echo "error: no Python 3.11 or newer answers as python3 or python3.11 to python3.14" >&2; \
		echo "hint: install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; fi
	@if [ -z "$(CXX_FOUND)" ]; then \
		echo "error: no C++ compiler (c++, g++ or clang++); torch.compile builds its CPU kernels with one" >&2; \
		echo "hint: install one (Debian and Ubuntu: apt install g++), or name it: CXX=/path/to/c++" >&2; exit 1; fi

# pip makes the tool's own venv, so that whatever index and cache pip is configured with is used.
$(TOOL)/.made: pyproject.toml | toolchain
	@echo "== the tool's own venv ($(TOOL))"
	@"$(PYTHON)" -m venv --clear $(TOOL) || { \
		echo "hint: this Python cannot make a venv (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@# Dependency groups need pip 25.1; Python 3.11 brings 23.2.
	$(TOOL)/bin/python -m pip install -qq --upgrade 'pip>=25.1'
	$(TOOL)/bin/python -m pip install -qq --editable .
	$(TOOL)/bin/python -m compileall -q envdoctor
	touch $@

$(TRAIN)/.made: $(SMOKE) $(TOOL)/.made
	@echo "== the training venv ($(TRAIN))"
	$(TOOL)/bin/envdoctor restore --profile cpu-smoke --venv $(TRAIN) -y
	touch $@

$(TEST)/.made: $(SMOKE) pyproject.toml $(TOOL)/.made
	@echo "== the test venv ($(TEST))"
	$(TOOL)/bin/envdoctor restore --profile cpu-smoke --venv $(TEST) -y
	$(TOOL)/bin/python -m pip --python $(TEST)/bin/python install -qq --editable . --group dev
	@# Bytecode of what most test processes import, once: a third of their start, where none may be written later.
	$(TEST)/bin/python -m compileall -q trainer tests/factories tests/closure
	env -u PYTHONDONTWRITEBYTECODE $(TEST)/bin/python -c \
		"import torch._inductor.compile_fx, torch.nn.attention.flex_attention, transformers, trainer.train"
	touch $@

$(FAST)/.made: pyproject.toml $(TOOL)/.made
	@echo "== a venv for the quick tests, without torch ($(FAST))"
	"$(PYTHON)" -m venv --clear --without-pip $(FAST)
	$(TOOL)/bin/python -m pip --python $(FAST)/bin/python install -qq --editable . --group dev
	touch $@

run: $(TRAIN)/.made
	$(TOOL)/bin/envdoctor check $(TRAIN) --profile cpu-smoke
	$(TOOL)/bin/envdoctor run --profile cpu-smoke --venv $(TRAIN) -- python -m trainer --profile cpu-smoke $(RUN_ARGUMENTS)
	@echo
	@echo "for a launch script: $(TOOL)/bin/envdoctor run --profile cpu-smoke --venv $(TRAIN) -- python -m trainer --profile cpu-smoke"

check-fast: $(FAST)/.made
	$(FAST)/bin/python -m ruff check .
	$(FAST)/bin/python -m ruff format --check .
	@# Beside the tests: it has one thread.
	@$(FAST)/bin/python -m mypy >$(FAST)/types.txt 2>&1 & types=$$!; trap 'kill $$types 2>/dev/null || true' EXIT; failed=0; \
	$(FAST)/bin/python -m pytest -q $(PARALLEL) auto -m "not (stack or index or builds)" \
		--ignore tests/checks/cases --ignore tests/unit/explore tests/test_architecture.py tests/unit tests/checks || failed=1; \
	wait $$types || failed=1; cat $(FAST)/types.txt; exit $$failed

lint: $(TEST)/.made
	$(TEST)/bin/python -m ruff check .
	$(TEST)/bin/python -m ruff format --check .
	$(TEST)/bin/python -m mypy

test: lint
	$(TEST)/bin/python -m pytest $(PARALLEL) $(WORKERS) -m "not (stack or giant)"

properties: $(TEST)/.made
	$(TEST)/bin/python -m pytest -m property --hypothesis-profile random

test-giants: $(TEST)/.made
	$(TEST)/bin/python -m pytest -m giant

fuzz: $(TEST)/.made
	$(TEST)/bin/python -m tests.hostile.fuzz $(FUZZ_ARGUMENTS)

test-stack: $(TEST)/.made
	$(TEST)/bin/python -m pytest -m stack tests/stack tests/launchers

bench: $(TOOL)/.made
	$(TOOL)/bin/python benchmarks/check_against_peers.py $(VENV) $(if $(PROFILE),--gate $(PROFILE))

docs: $(TEST)/.made
	$(TEST)/bin/python -m tools.check_pages docs/checks
	$(TEST)/bin/python -m tools.man_page docs/envdoctor.1

site: $(TEST)/.made
	$(TEST)/bin/python -m tools.docsite

release: committed $(TEST)/.made
	$(TEST)/bin/python tools/release.py

# Before the test environment is built, which takes a minute or more.
committed: toolchain
	@$(PYTHON) tools/release.py --committed

clean:
	rm -rf $(TOOL) $(TRAIN) $(TEST) $(FAST) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
