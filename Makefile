PYTHON ?= python3
ARGS ?=
BASE ?=

BIN := .venv/bin
SERVING := .venv/.serving
STAMP := .venv/.installed
# Where an environment forbids compiled modules, as images do, each process would compile all of them anew.
export PYTHONDONTWRITEBYTECODE :=

# One worker more than there are processors, because tests wait for servers and databases for two fifths of their time.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# A test that hangs ends its worker (tests/unit/support/deadlines.py), and another worker tries its file again.
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 2
# Tests with targets of their own. Their markers leave them out too, after they have been collected.
APART := tests/clients tests/engine

.DEFAULT_GOAL := help
.PHONY: help setup core run test test-pure test-clients test-engine test-image check fmt bench bench-peers bench-engine bench-fleet bench-retrieval soak docs package chart-tools page-tools lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv from the locked requirements

$(SERVING): requirements/serving.txt pyproject.toml dataplane/compiled_core.pyx
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo '[1/2] Installing what serving needs into .venv: some 60 packages, 70 MB to download; llama.cpp for the demo model is half of it.'
	@test -x $(BIN)/pip || PYTHON=$(PYTHON) scripts/create_environment .venv
	@scripts/install_lock $(BIN)/python requirements/serving.txt
	@echo '[2/2] Installing the gateway, and compiling its core.'
	@$(MAKE) --no-print-directory core
	@touch $@

$(STAMP): requirements/dev.txt $(SERVING)
	@echo 'Adding what tests and checks need, 180 MB to download.'
	@scripts/install_lock $(BIN)/python requirements/dev.txt
	@touch $@

core: ## install the gateway into .venv and compile its core, where there is a C compiler; a part of run and setup
	@PIP_QUIET= $(BIN)/python -m pip install --disable-pip-version-check --no-input -qq --no-deps --no-build-isolation --editable .
	@$(BIN)/python -c 'from dataplane.core import CORE; CORE or print("Without the compiled core, which needs a C compiler and the headers of Python: the gateway does the same in Python.")'

run: $(SERVING) ## serve on 127.0.0.1:8080; more with ARGS="--config FILE --port 9000"
	@$(BIN)/responses-gateway serve $(ARGS)

test: setup ## unit, contract, golden, fault and integration tests; translation/ is covered to the last branch
	@rm -f .coverage .coverage.*
	$(PYTEST) -p tests.translation_coverage $(addprefix --ignore=,$(APART)) $(ARGS)
	@$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --fail-under=100

test-pure: setup ## what reads and writes streams once more, without the compiled core
	PYTHONPATH="$(CURDIR)/tests/without_core" $(PYTEST) tests/contract tests/faults \
		$(addprefix tests/integration/,real_engines upstreams websocket) \
		$(addprefix tests/unit/dataplane/test_,coalescing.py core_receiver.py transport.py transport_pushes.py) \
		$(addprefix tests/unit/gateway/replies/test_,event_stream.py event_stream_pushes.py) $(ARGS)

test-clients: setup ## Codex, the SDKs and the frameworks against the gateway; needs npm
	scripts/test_clients $(ARGS)

test-engine: setup ## the same promises on a real vLLM, as a server and inside
	scripts/test_engine $(ARGS)

test-image: ## build the image and ask the server in it; needs root, buildah, mmdebstrap and a mirror of Debian
	scripts/test_image

check: setup ## format, lint, types, import rules, names, choices by name; changes nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m scripts.check_names
	$(BIN)/python -m scripts.check_choices

fmt: setup ## format and fix what can be fixed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: setup ## CPU per delta, added delay and memory, each beside a direct run and the baseline; with BASE=COMMIT beside that commit
	$(if $(BASE),base="$$(scripts/setup_base $(BASE))" && )PLOT_PYTHON="$$(scripts/setup_apart plot)" \
		$(BIN)/python -m bench $(if $(BASE),--base "$$base") $(ARGS)

bench-peers: setup ## the same beside other routers and gateways; installs them first (1 GB)
	PLOT_PYTHON="$$(scripts/setup_apart plot)" PEERS_PYTHON="$$(scripts/setup_apart peers)" \
		$(BIN)/python -m bench --peers $(ARGS)

bench-fleet: setup ## two replicas on PostgreSQL, restarted three times each under 200 streams: whether any fails or has a gap
	@$(BIN)/python -m bench.fleet $(ARGS)

bench-retrieval: setup ## how well vector stores are searched, beside bm25s; how fast with ARGS="--chunks 100000"
	RETRIEVAL_PYTHON="$$(scripts/setup_apart retrieval)" $(BIN)/python -m bench.retrieval $(ARGS)

soak: setup ## 30 minutes of mixed load, and whether anything grows; shorter with ARGS="--minutes 2"
	$(BIN)/python -m bench.soak $(ARGS)

bench-engine: setup ## vLLM inside: the prefix cache of second passes, tokens per second, /healthz at work
	ENGINE_PYTHON="$$(scripts/setup_engine)" $(BIN)/python -m bench.engine

docs: setup ## regenerate the generated pages of docs/, and build all pages as a site in build/site
	@$(BIN)/python -m scripts.docs
	@python="$$(PYTHON=$(PYTHON) scripts/setup_apart site)" && $(BIN)/python -m scripts.docs.site "$$python" build/site

chart-tools: setup ## fetch `helm` and the schemas of Kubernetes, with which make test examines the Helm chart (60 MB)
	@$(BIN)/python -m scripts.chart_tools

page-tools: setup ## fetch axe, with which make test examines whether everybody can use the pages (0.2 MB)
	@$(BIN)/python -m scripts.page_tools

package: ## build the source distribution and the wheel in dist/, and check what an index would refuse
	@rm -rf dist
	@python="$$(PYTHON=$(PYTHON) scripts/setup_apart package)" && "$$python" -m build --quiet --no-isolation --outdir dist . && \
		"$$python" -m twine check --strict dist/*

lock: ## regenerate requirements/*.txt from pyproject.toml
	scripts/lock $(ARGS)
