PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
STAMP := .venv/.installed

PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile
# The tests of translation/, which alone cover it to the last branch. To measure them doubles their time: no other is.
COVERING := $(addprefix tests/unit/test_,$(addsuffix .py, \
	anthropic_decode anthropic_golden anthropic_lower anthropic_lower_items anthropic_tool_schemas call_arguments \
	chat_calls chat_completion chat_decode chat_encode chat_failures chat_forced_tool chat_forms chat_history \
	chat_lift chat_logprobs chat_lower chat_lower_items chat_relay chat_relay_arguments chat_relay_calls \
	chat_relay_ids chat_relay_losses chat_relay_request chat_schema chat_text_calls chat_usage chunks collect \
	compaction conversation_bodies data_urls edges freeform gemini_contents gemini_decode gemini_lower gemini_parts \
	gemini_reading gemini_schemas gemini_thinking gemini_tools generate_reply generate_request generated grammar \
	hygiene_outputs hygiene_past_calls hygiene_reply hygiene_schema_shims hygiene_turn json_types listed many_items ndjson \
	ollama_decode ollama_lower ollama_lower_items ollama_shown overflow own_items profile responses_decode \
	responses_encode responses_forms responses_golden responses_lift responses_lower responses_relay \
	responses_relay_calls responses_relay_request responses_resource responses_schema responses_sealed \
	responses_snapshot retelling rounds sse stored_messages text_calls text_parts text_run text_tools think thoughts \
	tool_bridge tool_calls tool_judge tool_parsers_cuts tool_parsers_faults tool_parsers_forcing tool_parsers_hermes \
	tool_parsers_others unsupported urls validation))

.DEFAULT_GOAL := help
.PHONY: help setup core run test test-pure test-clients test-engine check fmt bench bench-peers bench-engine soak docs lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv from the locked requirements

$(STAMP): requirements/dev.txt pyproject.toml core/pyproject.toml core/gateway_core.pyx
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo 'Installing what is locked into .venv, which takes a minute or two.'
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@command -v "$${CC:-cc}" >/dev/null && $(MAKE) --no-print-directory core || \
		echo 'Without the compiled core, which needs a C compiler and the headers of Python: the gateway does the same in Python.'
	@touch $@

core: ## compile core/ into .venv; a part of setup where there is a C compiler
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation ./core

run: setup ## serve on 127.0.0.1:8080; more with ARGS="--config FILE --port 9000"
	$(BIN)/responses-gateway serve $(ARGS)

test: setup ## unit, contract, golden, fault and integration tests; translation/ is covered to the last branch
	$(PYTEST) --cov --cov-report= $(COVERING) $(ARGS)
	$(BIN)/python -m coverage report --include='translation/*' --fail-under=100
	$(PYTEST) $(addprefix --ignore=,$(COVERING)) $(ARGS)

test-pure: setup ## what reads and writes streams once more, without the compiled core
	PYTHONPATH="$(CURDIR)/tests/without_core" $(PYTEST) \
		tests/contract tests/faults tests/integration tests/unit/test_coalescing.py tests/unit/test_receiver.py \
		tests/unit/test_streaming.py tests/unit/test_transport.py $(ARGS)

test-clients: setup ## Codex, the SDKs and the frameworks against the gateway; needs npm
	scripts/test_clients $(ARGS)

test-engine: setup ## the same promises on a real vLLM, as a server and inside
	scripts/test_engine $(ARGS)

check: setup ## format, lint, types, import rules, names; changes nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m scripts.check_names

fmt: setup ## format and fix what can be fixed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: setup ## CPU per delta, added delay and memory, each beside a direct run and beside the baseline
	PLOT_PYTHON="$$(scripts/setup_apart plot)" $(BIN)/python -m bench $(ARGS)

bench-peers: setup ## the same beside other routers and gateways; installs them first (1 GB)
	PLOT_PYTHON="$$(scripts/setup_apart plot)" PEERS_PYTHON="$$(scripts/setup_apart peers)" \
		$(BIN)/python -m bench --peers $(ARGS)

soak: setup ## 30 minutes of mixed load, and whether anything grows; shorter with ARGS="--minutes 2"
	$(BIN)/python -m bench.soak $(ARGS)

bench-engine: setup ## vLLM inside: the prefix cache of second passes, tokens per second, /healthz at work
	ENGINE_PYTHON="$$(scripts/setup_engine)" $(BIN)/python -m bench.engine

docs: setup ## regenerate the generated pages of docs/
	$(BIN)/python -m scripts.docs

lock: ## regenerate requirements/*.txt from pyproject.toml
	scripts/lock $(ARGS)
