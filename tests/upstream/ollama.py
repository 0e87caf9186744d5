"""Replies of Ollama's own API, in the form of its documentation."""

from collections.abc import Iterable
from typing import Any

from .builders import MODEL, Json, dump, either, json_reply
from .script import Reply, Script

LINES = {"content-type": "application/x-ndjson"}
MADE = "2023-12-12T14:13:43.416799Z"
COUNTS: Json = {
    "total_duration": 4_883_583_458,
    "load_duration": 1_334_875,
    "prompt_eval_count": 9,
    "prompt_eval_duration": 342_546_000,
    "eval_count": 3,
    "eval_duration": 4_535_599_000,
}


def line(value: object) -> bytes:
    return dump(value) + b"\n"


def chunk(content: str = "", *, done: bool = False, logprobs: Any = None, **message: Any) -> Json:
    """One object of a stream; further arguments are fields of its message."""
    said = {"role": "assistant", "content": content, **message}
    made: Json = {"model": MODEL, "created_at": MADE, "message": said, "done": done}
    return {**made, "logprobs": logprobs} if logprobs is not None else made


def last(done_reason: str | None = "stop", content: str = "", counts: Json | None = None, **message: Any) -> Json:
    """The object that ends a stream, or a whole answer."""
    reason = {} if done_reason is None else {"done_reason": done_reason}
    return {**chunk(content, done=True, **message), **reason, **(COUNTS if counts is None else counts)}


def call(name: str, call_id: str | None = None, /, **arguments: Any) -> Json:
    said = {"function": {"name": name, "arguments": arguments}}
    return said if call_id is None else {"id": call_id, **said}


def ollama_lines(chunks: Iterable[Json]) -> Reply:
    return Reply(headers=LINES, body=[line(each) for each in chunks])


def ollama_text(*pieces: str, done_reason: str = "stop", **message: Any) -> Script:
    """A plain text answer."""
    streamed = [*map(chunk, pieces), last(done_reason)]
    return either(ollama_lines(streamed), json_reply(last(done_reason, "".join(pieces), **message)))


def ollama_calls(*calls: Json, thinking: str = "") -> Script:
    """Thinking, then calls."""
    thought = [chunk(thinking=thinking)] if thinking else []
    more: dict[str, Any] = {"thinking": thinking} if thinking else {}
    whole = last(tool_calls=list(calls), **more)
    streamed = [*thought, *(chunk(tool_calls=[each]) for each in calls), last()]
    return either(ollama_lines(streamed), json_reply(whole))


def ollama_error(status: int, text: str) -> Reply:
    return json_reply({"error": text}, status)


def ollama_shown(*abilities: str, window: int = 40_960, num_ctx: int | None = None) -> Reply:
    """Returns the reply of `/api/show`. `window`: its maximum context; `num_ctx`: the value in its Modelfile."""
    facts = {"general.architecture": "qwen3", "qwen3.block_count": 28, "qwen3.context_length": window}
    details = {"format": "gguf", "family": "qwen3", "parameter_size": "751.63M", "quantization_level": "Q4_K_M"}
    own = {} if num_ctx is None else {"parameters": f'num_ctx                        {num_ctx}\nstop "<|im_end|>"'}
    return json_reply({"details": details, "model_info": facts, "capabilities": list(abilities), **own})


def ollama_tags(*names: str) -> Reply:
    """Returns the reply of `/api/tags`."""
    rows = [
        {"name": name, "model": name, "modified_at": MADE, "size": 1, "digest": "0", "details": {}} for name in names
    ]
    return json_reply({"models": rows})
