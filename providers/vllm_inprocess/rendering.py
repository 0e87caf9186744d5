"""Renders a chat body to a prompt with vLLM's own renderer, as its server would."""

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from translation.representation.json_types import Json

_PROBE_DESCRIPTION: Final = "a tool that only a template with tools in it names"


async def render_prompt(vllm: ModuleType, renderer: Any, chat: Json, *, as_parts: bool) -> Any:
    """Returns the engine's input: token ids, and the data of images.

    The template gets content as text unless `as_parts`, because a template that concatenates strings fails on a list of
    parts. vLLM's own detection is not used without images: it takes any loop over the content as support for parts.
    """
    parameters = vllm.ChatParams(
        chat_template_content_format="auto" if as_parts else "string",
        chat_template_kwargs={
            "add_generation_prompt": True,
            "continue_final_message": False,
            **(chat.get("chat_template_kwargs") or {}),
            "tools": [_template_tool(tool) for tool in chat.get("tools") or ()] or None,
            "tokenize": False,
        },
    )
    # Without vLLM's limit, which would truncate the prompt before it is counted. The caller reports a prompt that is
    # too long.
    limits = replace(renderer.default_chat_tok_params, max_total_tokens=None)
    # Images are sent to the engine with every run, because a second pass must not depend on the content of a cache.
    _, (prompt,) = await renderer.render_chat_async([chat["messages"]], parameters, limits, skip_mm_cache=True)
    return prompt


def _template_tool(tool: Mapping[str, Any]) -> Json:
    """Returns a tool with the keys that vLLM's server passes to templates, in its order. Templates print the object as
    it is."""
    function = tool.get("function") or {}
    fields = {name: function.get(name) for name in ("name", "description", "parameters")}
    if function.get("strict") is not None:
        fields["strict"] = function["strict"]
    return {"type": "function", "function": fields}


async def renders_tools(vllm: ModuleType, renderer: Any) -> bool:
    """Whether the model's template writes tools into the prompt. It is tried with a tool, by the tool's description."""
    chat: Json = {
        "messages": [{"role": "user", "content": "."}],
        "tools": [
            {"type": "function", "function": {"name": "probe", "description": _PROBE_DESCRIPTION, "parameters": {}}}
        ],
    }
    prompt = await render_prompt(vllm, renderer, chat, as_parts=False)
    text = prompt.get("prompt") or renderer.get_tokenizer().decode(prompt["prompt_token_ids"])
    return _PROBE_DESCRIPTION in text
