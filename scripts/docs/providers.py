"""docs/providers.md, from the providers as they are built."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from providers.base import Capabilities, Dialect
from providers.config import EMBEDDED, KINDS, ProviderConfig, ProviderType
from providers.registry import build
from scripts.docs.markdown import page, table

_INTRODUCTION = """\
# Providers

Generated from the providers themselves by `make docs`.

A provider is one configured upstream; its `type` says what kind of server that is. What follows from the type can be set
otherwise for one upstream or one model, see [configuration](configuration.md).

| type | for |
| --- | --- |
| `openai` | OpenAI itself. Speaks both APIs, so both are relayed. |
| `openrouter` | OpenRouter, in chat. Its routing fields are passed on, its `reasoning_details` come back to it. |
| `vllm` | A vLLM server, in chat. Its sampling fields are passed on. |
| `llama_server` | llama.cpp's own server, in chat. |
| `openai_compatible` | Anything else with a `/chat/completions`: Ollama, LM Studio, SGLang, a hosted service. With `dialects: [responses]`, anything with a `/responses`. |
| `llamacpp` | llama.cpp inside the gateway, for any GGUF file: see [embedded engines](#embedded-engines). |
| `vllm_inprocess` | vLLM inside the gateway: likewise. |
| `scripted` | No model but a script, inside the gateway: deterministic, offline, for tests. |

Local servers may do without a key. A model whose reasoning comes between think tags in its text needs
`parsing_format: think_tags`; one whose server takes it apart does not.

```yaml
providers:
  openai: {type: openai, api_key_env: OPENAI_API_KEY}
  openrouter: {type: openrouter, api_key_env: OPENROUTER_API_KEY}
  vllm: {type: vllm, base_url: "http://gpu-1:8000/v1"}
  ollama: {type: openai_compatible, base_url: "http://localhost:11434/v1"}
models:
  gpt-oss-20b: {provider: openrouter, model: openai/gpt-oss-20b}
  qwen3: {provider: ollama, model: "qwen3:8b", capabilities: {images: false}}
  "gpt-*": {provider: openai}
  "*": {provider: vllm}
```"""  # noqa: E501

_EMBEDDED = """\
An embedded engine starts with the gateway and ends with it; there is no second server to run. Its library is an extra, which
nothing imports unless a provider is configured that needs it:
`pip install "responses-gateway[llamacpp]"`, `pip install "responses-gateway[vllm]"`.

```yaml
providers:
  local:
    type: llamacpp
    model: models/tiny-reasoner.gguf # any GGUF file
    engine: {n_ctx: 32768, n_parallel: 4, n_gpu_layers: 99, cpuparams: {n_threads: 8}}
models:
  qwen3: {provider: local, two_pass: true, max_thinking_tokens: 2048, tool_parser: hermes}
```

- `engine` takes every parameter of llama.cpp's `common_params` that is a number, a text, a switch or a list, by llama.cpp's own
  names, and every engine argument of vLLM. Unknown names and wrong values are refused by `check-config`, by the installed
  library itself.
- llama.cpp shares `n_ctx` out: a request has `n_ctx / n_parallel` tokens. `n_parallel` requests run at once, 4 if nothing is said;
  the others wait. A model reads images with its projector, `engine: {mmproj: {path: FILE.gguf}}`.
- While the engine loads, requests for its models get 503 `engine_unavailable` with `retry-after`, and `/readyz` says what it is
  doing. `listening on` is printed once every engine is up or has failed.
- An engine that dies fails the streams it was answering at once and is started again, after half a second and then ever
  longer, up to 30 s. [Operations](operations.md#engines) has what is told of it.
- Each worker process has engines of its own. Where one fills the machine, `server.workers` is 1."""  # noqa: E501

_CAPABILITIES = """\
Held against every request before anything is sent. A request for what the upstream cannot do is refused by name, or,
where the answer survives it, goes through with a loss.

Servers that speak chat are trusted to refuse in their own words what their model cannot do. Where yours ignores it
instead, narrow that model's `capabilities`."""

_MORE = """\
How each type is spoken to, and which request fields it is passed beyond OpenAI's, is under
[profiles](dialects.md#profiles). What becomes of every parameter is
[there too](dialects.md#parameters-of-responses)."""

_COLUMNS: dict[str, tuple[ProviderType, tuple[Dialect, ...]]] = {
    **{f"`{kind}`": (kind, KINDS[kind].dialects) for kind in KINDS},
    "`openai_compatible`, `dialects: [responses]`": ("openai_compatible", ("responses",)),
}


def providers() -> str:
    return page(
        _INTRODUCTION,
        "## Embedded engines",
        _EMBEDDED,
        "## Capabilities",
        _CAPABILITIES,
        table(["capability", *_COLUMNS], _rows()),
        _MORE,
    )


def _rows() -> Iterator[list[str]]:
    columns = [_capabilities(kind, dialects) for kind, dialects in _COLUMNS.values()]
    for field in fields(Capabilities):
        yield [f"`{field.name}`", *(_words(getattr(column, field.name)) for column in columns)]


def _capabilities(kind: ProviderType, dialects: tuple[Dialect, ...]) -> Capabilities:
    given: dict[str, Any] = {"type": kind, "dialects": dialects}
    if kind in EMBEDDED:
        given |= {} if kind == "scripted" else {"model": "model"}
    else:
        given |= {"base_url": "http://localhost/v1"}
    return build(kind, ProviderConfig.model_validate(given)).capabilities


def _words(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return f"`{value}`"
        case None:
            return "unknown"
        case frozenset():
            return ", ".join(f"`{name}`" for name in sorted(value)) or "none"
    raise TypeError(f"no words for {value!r}")
