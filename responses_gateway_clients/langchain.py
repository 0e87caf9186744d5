"""`ChatVllm`, a LangChain chat model that uses the gateway. It needs the extra `langchain`."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from operator import itemgetter
from typing import Any, Literal, Self, TypeAlias

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils import secret_from_env
from langchain_core.utils.function_calling import convert_to_openai_function
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from responses_gateway_clients.contract import Api, GatewayRequest
from responses_gateway_clients.generate_api import GenerateApi
from responses_gateway_clients.http import GatewayClient, GatewayError, Json
from responses_gateway_clients.messages import (
    THINKING_KEY,
    ai_message_of,
    chat_messages_of,
    response_metadata_of,
    usage_metadata_of,
)
from responses_gateway_clients.parsing import parse_response
from responses_gateway_clients.responses_api import ResponsesApi

__all__ = ["ChatVllm", "GatewayError", "parse_response"]

_Tool: TypeAlias = "Json | type | Callable[..., Any] | BaseTool"
_Method: TypeAlias = Literal["function_calling", "json_schema", "json_mode"]

_APIS: Mapping[str, Api] = {"generate": GenerateApi(), "responses": ResponsesApi()}

_CALL_FIELDS = frozenset(
    {
        *("model", "temperature", "two_pass", "think_tag", "tool_parser", "max_thinking_tokens", "max_response_tokens"),
        *("tools", "tool_choice", "response_format"),
    }
)
"""Fields of `GatewayRequest` that a single call or `bind` may set. Other keyword arguments are sent as fields of the
request."""

_DEFAULT_THINK_TAG: Literal["think", "thinking"] = "think"


class ChatVllm(BaseChatModel):
    """A model of a gateway. Fields that are None are left to the model's configuration in the gateway.

    The `content` of a message is the raw text: the thinking in a closed block, then the answer. With `split_thinking`
    it is only the answer. In both cases the thinking is in `additional_kwargs["thinking"]`, and is sent back to the
    model with the message. Raises GatewayError with the gateway's own message.
    """

    model_config = ConfigDict(populate_by_name=True, extra="forbid")

    base_url: str = "http://127.0.0.1:8080"
    """The gateway's address, with or without `/v1`."""
    api: Literal["generate", "responses"] = "generate"
    model: str | None = Field(default=None, alias="model_name")
    """The name of the model. None: the first model in the gateway's configuration whose name is not a pattern; only
    with `api="generate"`."""
    api_key: SecretStr | None = Field(default_factory=secret_from_env("RESPONSES_GATEWAY_API_KEY", default=None))
    temperature: float | None = None
    stop: list[str] | None = None
    two_pass: bool | None = None
    """Whether the engine generates thinking and answer in two passes, so that the thinking budget is exact."""
    think_tag: Literal["think", "thinking"] | None = None
    max_thinking_tokens: int | None = Field(default=None, ge=0)
    max_response_tokens: int | None = Field(default=None, ge=1, alias="max_tokens")
    tool_parser: str | None = None
    split_thinking: bool = False
    timeout: float | None = 600.0
    """Seconds without data from the gateway after which a request fails. None: no limit."""
    max_retries: int = Field(default=2, ge=0)
    headers: dict[str, str] = Field(default_factory=dict)
    streaming: bool = False
    """Whether replies are also streamed for calls that return the whole message."""

    @model_validator(mode="after")
    def _refuse_unsupported_fields(self) -> Self:
        if self.api == "responses":
            for name in ("two_pass", "tool_parser"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} cannot be set with /v1/responses: use api='generate'")
            if self.model is None:
                raise ValueError("set model: /v1/responses has no default model")
        return self

    @property
    def _llm_type(self) -> str:
        return "responses-gateway"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        names = ("api", "model", "temperature", "two_pass", "max_thinking_tokens", "max_response_tokens", "stop")
        return {"base_url": self.base_url, **{name: getattr(self, name) for name in names}}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop or self.stop, **kwargs)
        params["ls_provider"] = self._llm_type
        params.setdefault("ls_model_name", self.model or "default")
        if (limit := kwargs.get("max_response_tokens", self.max_response_tokens)) is not None:
            params["ls_max_tokens"] = limit
        return params

    def bind_tools(
        self, tools: Sequence[_Tool], *, tool_choice: str | bool | Json | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Returns the model with tools. `tool_choice` is the name of a tool, `auto`, `none`, or `any` to require a
        call.

        Raises ValueError for an unknown `tool_choice`.
        """
        strict = kwargs.pop("strict", None)
        definitions = [_tool_definition(tool, strict) for tool in tools]
        return self.bind(
            tools=definitions,
            tool_choice=_normalize_tool_choice(tool_choice, [tool["name"] for tool in definitions]),
            **kwargs,
        )

    def with_structured_output(
        self,
        schema: Json | type,
        *,
        method: _Method = "function_calling",
        include_raw: bool = False,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Json | BaseModel]:
        """Returns the model with answers that fit a schema: by a forced call, or with `json_schema` by a constraint of
        the engine. With `json_mode` the answers are only JSON.

        Raises ValueError for an unknown `method`.
        """
        if method == "function_calling":
            return super().with_structured_output(schema, include_raw=include_raw, strict=strict, **kwargs)
        if method not in ("json_schema", "json_mode"):
            raise ValueError(f"unknown method {method!r}: use function_calling, json_schema or json_mode")
        bound = self.bind(
            response_format=_build_response_format(schema, method, strict=strict),
            split_thinking=True,
            ls_structured_output_format={"kwargs": {"method": method}, "schema": schema},
            **kwargs,
        )
        is_model = isinstance(schema, type) and issubclass(schema, BaseModel)
        parser: Runnable[Any, Any] = PydanticOutputParser(pydantic_object=schema) if is_model else JsonOutputParser()
        if not include_raw:
            return bound | parser
        parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
        unparsed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=bound) | parsed.with_fallbacks([unparsed], exception_key="parsing_error")

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call = _Call(self, messages, stop, kwargs, stream=False)
        return call.build_result(call.gateway.post(call.api.path, call.body))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        call = _Call(self, messages, stop, kwargs, stream=False)
        return call.build_result(await call.gateway.apost(call.api.path, call.body))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        call = _Call(self, messages, stop, kwargs, stream=True)
        with closing(call.gateway.stream(call.api.path, call.body)) as frames:
            for frame in frames:
                for delta in call.reader.feed(frame):
                    chunk = call.build_chunk(delta)
                    if run_manager is not None:
                        run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
        yield call.build_last_chunk()

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        call = _Call(self, messages, stop, kwargs, stream=True)
        async with aclosing(call.gateway.astream(call.api.path, call.body)) as frames:
            async for frame in frames:
                for delta in call.reader.feed(frame):
                    chunk = call.build_chunk(delta)
                    if run_manager is not None:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
        yield call.build_last_chunk()


class _Call:
    """One request, and its reply in LangChain's classes."""

    def __init__(
        self, model: ChatVllm, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Json, *, stream: bool
    ) -> None:
        fields = {name: getattr(model, name) for name in _CALL_FIELDS if hasattr(model, name)}
        arguments = {"max_response_tokens" if name == "max_tokens" else name: kwargs[name] for name in kwargs}
        self._split_thinking = arguments.pop("split_thinking", model.split_thinking)
        arguments.pop("stream", None)
        fields |= {name: arguments.pop(name) for name in _CALL_FIELDS & arguments.keys()}
        self._think_tag = fields["think_tag"] or _DEFAULT_THINK_TAG
        self._is_thinking_open = False
        self.api = _APIS[model.api]
        self.reader = self.api.create_reader()
        self.body = self.api.build_body(
            GatewayRequest(
                messages=chat_messages_of(messages, self._think_tag),
                stop=stop or model.stop,
                extra_fields=arguments,
                **fields,
            ),
            stream=stream,
        )
        self.gateway = GatewayClient(
            base_url=model.base_url.rstrip("/").removesuffix("/v1"),
            api_key=model.api_key.get_secret_value() if model.api_key else None,
            timeout_s=model.timeout,
            max_retries=model.max_retries,
            headers=model.headers,
        )

    def build_result(self, reply: Json) -> ChatResult:
        """Returns the result of a reply that is not streamed."""
        message = ai_message_of(self.api.parse_reply(reply), self._think_tag, split_thinking=self._split_thinking)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def build_chunk(self, delta: Json) -> ChatGenerationChunk:
        """Returns the chunk for a delta of a reply."""
        if (thinking := delta.get("thinking")) is not None:
            text = (
                "" if self._split_thinking else thinking if self._is_thinking_open else f"<{self._think_tag}>{thinking}"
            )
            self._is_thinking_open = not self._split_thinking
            return _generation_chunk(AIMessageChunk(content=text, additional_kwargs={THINKING_KEY: thinking}))
        closing_tag = self._close_thinking()
        if (call := delta.get("tool_call")) is not None:
            part = tool_call_chunk(
                name=call.get("name"), args=call["arguments"], id=call.get("id"), index=call["index"]
            )
            return _generation_chunk(AIMessageChunk(content=closing_tag, tool_call_chunks=[part]))
        return _generation_chunk(AIMessageChunk(content=closing_tag + delta.get("response", "")))

    def build_last_chunk(self) -> ChatGenerationChunk:
        """Returns the last chunk of a stream. Raises GatewayError if the stream ended before its end event."""
        reply = self.reader.reply
        if reply is None:
            raise GatewayError("the stream broke off before its end", code="stream_broken")
        message = AIMessageChunk(
            content=self._close_thinking(),
            response_metadata=response_metadata_of(reply),
            usage_metadata=usage_metadata_of(reply),
            chunk_position="last",
        )
        return _generation_chunk(message)

    def _close_thinking(self) -> str:
        was_open, self._is_thinking_open = self._is_thinking_open, False
        return f"</{self._think_tag}>" if was_open else ""


def _generation_chunk(message: AIMessageChunk) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=message)


def _tool_definition(tool: _Tool, strict: bool | None) -> Json:
    function = convert_to_openai_function(tool, strict=strict)
    return {"parameters": {"type": "object", "properties": {}}, **function}


def _normalize_tool_choice(choice: str | bool | Json | None, names: Sequence[str]) -> str | Json | None:
    match choice:
        case None | False | "auto":
            return None if choice != "auto" else "auto"
        case "none":
            return "none"
        case True | "any" | "required":
            return {"name": names[0]} if len(names) == 1 else "required"
        case {"function": {"name": str(name)}} | {"name": str(name)}:
            pass
        case {"type": "auto" | "none" as kind}:
            return str(kind)
        case {"type": "any"}:
            return _normalize_tool_choice("any", names)
        case str(name):
            pass
        case _:
            raise ValueError(f"unknown tool_choice {choice!r}: use auto, none, any, or the name of a tool")
    if name not in names:
        raise ValueError(f"tool_choice {name!r} is not one of the tools: {', '.join(names)}")
    return {"name": name}


def _build_response_format(schema: Json | type, method: _Method, *, strict: bool | None) -> Json:
    if method == "json_mode":
        return {"type": "json_object"}
    function = convert_to_openai_function(schema, strict=strict)
    json_schema = {"name": function["name"], "schema": function["parameters"]}
    return {"type": "json_schema", "json_schema": json_schema if strict is None else {**json_schema, "strict": strict}}
