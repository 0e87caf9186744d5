"""docs/providers.md, from the providers as they are built."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from providers.base import Capabilities, Dialect
from providers.config import KINDS, ProviderConfig, ProviderType
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
| `openai_compatible` | Anything else with a `/chat/completions`: llama-server, Ollama, LM Studio, SGLang, a hosted service. With `dialects: [responses]`, anything with a `/responses`. |
| `scripted` | The demo model, inside the gateway: deterministic, offline, free. |

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
    if kind != "scripted":
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
