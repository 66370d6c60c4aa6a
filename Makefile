# Two commands do all their own set-up on a bare Debian 12 with Python 3.11, make and a C++ compiler:
#   make demo    the quick-start notebook on the demo model, answers in the terminal
#   make test    everything that CI runs
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without -march=native llama.cpp gives the same results on all machines of a kind, and does not
# crash where GCC 12 meets a CPU with AMX (ggml-org/llama.cpp#20824). Left out of the build is what
# llama_magic never loads, 104 of 178 compile units: vision (51), and llama-common (53), which
# llama-cpp-python forces on, so that only a variable set inside its project switches it off.
# What reads files and builds graphs is compiled with -O1, which saves half a minute of CPU; decoding is as fast (the
# arithmetic is ggml's, at -O3). Cutting text into tokens and drawing would suffer, so they stay at -O3.
# What you set yourself comes last and wins: CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=ON" make demo
LEAN := $(VENV)/lean.cmake
export CMAKE_ARGS := -DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF '-DCMAKE_PROJECT_llama_cpp_INCLUDE=$(CURDIR)/$(LEAN)' $(CMAKE_ARGS)
# A module is compiled when it is first imported, and kept, also where Python was told to keep none (as in many
# containers). pip compiles none: most of the 14,000 are never imported.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --editable

.PHONY: demo lab test lint javascript types unit lessons soak bench shots clean

demo: $(VENV)/.demo
	$(BIN)/python notebooks/run.py notebooks/00_quickstart.ipynb build/00_quickstart.ipynb

lab: $(VENV)/.lab
	$(BIN)/jupyter lab build/00_quickstart.ipynb || $(BIN)/jupyter lab notebooks/00_quickstart.ipynb

test: lint types unit

lint: $(VENV)/.test javascript
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The checker of the JavaScript comes by npm, which no user needs: where it is missing that is said.
TSC := $(VENV)/typescript-5.9.3
javascript: | $(VENV)/.python
	@if command -v npm > /dev/null; then \
	  npm install --silent --no-audit --no-fund --no-package-lock --prefix $(TSC) $(subst -,@,$(notdir $(TSC))) \
	    && $(TSC)/node_modules/.bin/tsc -p tests/jsconfig.json && echo "JavaScript: types checked."; \
	else echo "JavaScript: NOT checked, for npm is not here (apt-get install npm)."; fi

types: $(VENV)/.test
	$(BIN)/mypy

unit: $(VENV)/.test
	$(BIN)/python -m pytest tests

# Part of `unit`: the lessons under nbval, in two kernels (one each: `make soak`), with the instructor's answers.
lessons: $(VENV)/.test
	$(BIN)/python -m pytest tests/test_lessons.py

soak: $(VENV)/.test
	$(BIN)/python -m pytest -q -m hypothesis --hypothesis-profile=soak tests
	for script in tests/*/soak_*.py; do PYTHONPATH=tests $(BIN)/python $$script || exit 1; done

# Tables: build/bench/table.md and table.json. Libraries to compare with go to build/peers.
bench: $(VENV)/.test
	$(BIN)/python benchmarks/peers.py
	for script in benchmarks/bench_*.py; do $(BIN)/python $$script || exit 1; done
	$(BIN)/python benchmarks/harness.py

$(VENV)/.python:
	$(PYTHON) -m venv $(VENV) || { echo "No venv module: apt-get install python3-venv"; exit 1; }
	touch $@

$(LEAN): | $(VENV)/.python
	echo 'set(LLAMA_BUILD_COMMON OFF)' > $@
	echo 'cmake_language(DEFER CALL target_compile_options llama PRIVATE -O1)' >> $@
	echo 'set(QUICK llama-vocab.cpp unicode.cpp llama-sampler.cpp)' >> $@
	echo 'list(TRANSFORM QUICK PREPEND vendor/llama.cpp/src/)' >> $@
	echo 'cmake_language(DEFER CALL set_property SOURCE $${QUICK} TARGET_DIRECTORY llama PROPERTY COMPILE_OPTIONS -O3)' >> $@

# llama-cpp-python comes as source: this builds llama.cpp, about two minutes on two cores.
$(VENV)/.demo: $(VENV)/.python pyproject.toml | $(LEAN)
	@echo "Installing llama-magic; building llama.cpp takes about two minutes the first time."
	$(INSTALL) ".[demo]" ipykernel nbclient
	touch $@

$(VENV)/.lab: $(VENV)/.demo
	$(INSTALL) ".[demo,lab]"
	touch $@

$(VENV)/.test: $(VENV)/.demo pyproject.toml
	$(INSTALL) ".[demo,lab,test]"
	touch $@

# Pictures of every view, to look at, in tests/screenshots; and those of README, in notebooks/pictures. Of some:
# make shots PARTS="live readme" ONLY="xray pen"; what is newer than what it shows is kept (FRESH=1 takes all).
shots: $(VENV)/.test
	PYTHONPATH=tests:tests/display $(BIN)/python tests/browser/shots.py $(PARTS)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
