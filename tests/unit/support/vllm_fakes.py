"""Stand-ins for the parts of vLLM that the gateway uses."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

IDS = {"<think>": 1, "</think>": 2, "<tool_call>": 3}


class VLLMClientError(Exception):
    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter

    def __str__(self) -> str:
        return f"{self.args[0]} (parameter={self.parameter}, value=everything that was sent)"


class GracefulHTTPError(Exception):
    def __init__(self, message: str, http_status: int) -> None:
        super().__init__(message)
        self.message = message
        self.http_status = http_status


class EngineDeadError(Exception):
    pass


class SamplingParams(SimpleNamespace):
    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        if values.get("temperature", 1) < 0:
            raise VLLMClientError("temperature must be non-negative", "temperature")


@dataclass
class AsyncEngineArgs:
    model: str = ""
    max_model_len: int = 4096
    tensor_parallel_size: int = 1
    distributed_executor_backend: str | None = None
    quantization: str | None = None
    dtype: str = "auto"
    disable_log_stats: bool = False
    enable_log_requests: bool = False
    reasoning_parser: str = ""
    reasoning_config: dict[str, str] | None = None
    _api_process_count: int = 1


class Tokenizer:
    """A tokenizer in which every character is a token, except the tags."""

    all_special_tokens: Sequence[str] = ("<|im_end|>",)
    is_fast = False

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        assert not add_special_tokens
        return [IDS[text]] if text in IDS else [ord(character) for character in text]

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = False) -> str:
        assert not skip_special_tokens
        names = {number: tag for tag, number in IDS.items()}
        return "".join(names.get(token) or chr(token) for token in tokens)


@dataclass(frozen=True)
class Limits:
    max_total_tokens: int | None = 64


class Renderer:
    """A template that renders each message as a line, and the names of tools if it supports tools."""

    default_chat_tok_params = Limits()

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.says_tools = True
        self.failure: Exception | None = None
        self.mixed: dict[str, Any] | None = None

    async def render_chat_async(
        self, conversations: Sequence[Any], params: Any, limits: Limits, *, skip_mm_cache: bool
    ) -> Any:
        assert limits.max_total_tokens is None
        assert skip_mm_cache
        self.asked.append((conversations[0], params))
        if self.failure is not None:
            raise self.failure
        tools = params.chat_template_kwargs["tools"] if self.says_tools else None
        text = f"{tools or ''}\n" + "".join(f"{message['content']}\n" for message in conversations[0])
        tokens = [ord(character) for character in text]
        return None, [{"type": "token", "prompt": text, "prompt_token_ids": tokens, **(self.mixed or {})}]


@dataclass
class Completion:
    text: str
    token_ids: Sequence[int] = ()
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    logprobs: Sequence[dict[int, Any]] | None = None


@dataclass
class Output:
    outputs: list[Completion]
    num_cached_tokens: int | None = None


def text_output(text: str, finish_reason: str | None = None, **rest: Any) -> Output:
    cached = rest.pop("cached", None)
    tokens = rest.pop("tokens", [ord(character) for character in text])
    return Output([Completion(text, tokens, finish_reason, **rest)], cached)


@dataclass
class EngineRequest:
    input: Any
    params: Any
    request_id: str
    priority: int
    reasoning_ended: bool | None


@dataclass
class ModelConfig:
    max_model_len: int = 64
    is_multimodal_model: bool = False
    sampling: dict[str, Any] = field(default_factory=dict)

    def get_diff_sampling_param(self) -> dict[str, Any]:
        return self.sampling


class AsyncLLM:
    """An engine that returns its script, which may contain a failure."""

    def __init__(
        self,
        *script: Output | Exception,
        tokenizer: Tokenizer | None = None,
        refuses_guides: Exception | None = None,
    ) -> None:
        self.refuses_guides = refuses_guides
        self.script = list(script) or [text_output("a"), text_output("", "stop")]
        self.model_config = ModelConfig()
        self.vllm_config = SimpleNamespace(structured_outputs_config=SimpleNamespace(backend="auto"))
        self.renderer = Renderer()
        self.asked: list[EngineRequest] = []
        self.unfinished = 0
        self.hangs = False
        """An output that never ends."""
        self.output_handler: asyncio.Future[None] | None = None
        self.was_shut_down = False
        self._tokenizer = tokenizer or Tokenizer()

    def get_tokenizer(self) -> Tokenizer:
        return self._tokenizer

    def get_num_unfinished_requests(self) -> int:
        return self.unfinished

    async def generate(
        self, input: Any, params: Any, request_id: str, *, priority: int, reasoning_ended: bool | None
    ) -> AsyncGenerator[Output, None]:
        if self.output_handler is None:
            self.output_handler = asyncio.get_running_loop().create_future()
        self.asked.append(EngineRequest(input, params, request_id, priority, reasoning_ended))
        if self.refuses_guides is not None and params.structured_outputs is not None:
            raise self.refuses_guides
        self.unfinished += 1
        try:
            for output in self.script:
                if isinstance(output, Exception):
                    raise output
                yield output
            if self.hangs:
                await asyncio.get_running_loop().create_future()
        finally:
            self.unfinished -= 1

    def shutdown(self) -> None:
        self.was_shut_down = True


def library(**more: Any) -> ModuleType:
    """Returns a stand-in for `providers.vllm_inprocess.library`, with some names replaced."""
    module = ModuleType("library")
    names: dict[str, Any] = {
        "AsyncEngineArgs": AsyncEngineArgs,
        "ChatParams": SimpleNamespace,
        "EngineDeadError": EngineDeadError,
        "GracefulHTTPError": GracefulHTTPError,
        "RequestOutputKind": SimpleNamespace(DELTA="delta"),
        "SamplingParams": SamplingParams,
        "StructuredOutputsParams": SimpleNamespace,
        "VLLMClientError": VLLMClientError,
        "has_xgrammar_unsupported_json_features": lambda schema: "multipleOf" in schema,
        "reads_tag": lambda tag: "nonsense" not in tag,
        "tokens_input": lambda tokens, *, cache_salt=None: {"prompt_token_ids": tokens, "cache_salt": cache_salt},
        **more,
    }
    vars(module).update(names)
    return module
