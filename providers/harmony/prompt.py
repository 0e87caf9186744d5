"""Renders a chat to the tokens of a Harmony conversation. https://cookbook.openai.com/articles/openai-harmony"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import orjson

from providers.harmony.encoding import Encoding
from providers.harmony.text_splitting import measure_longest_stretch, split_text
from providers.harmony.trained_tools import build_namespaces, find_call_header, is_trained
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json

HarmonyEffort = Literal["low", "medium", "high"]

_NO_NAMES: Final[Mapping[str, str]] = {}

_MAX_TOOL_TEXT_STRETCH: Final = 4096
"""The most characters of a stretch without a break in a text of a tool. The library renders tools itself, so these
texts cannot be split."""


def render_conversation(
    encoding: Encoding,
    messages: Sequence[Json],
    tools: Sequence[Json],
    effort: HarmonyEffort,
    answer_schema: Json | None,
    trained_names: Mapping[str, str] = _NO_NAMES,
) -> list[int]:
    """Returns the tokens of the conversation, up to the beginning of the header of the assistant's next message.

    `answer_schema` is the schema of the final answer, or None. `trained_names` has the functions that stand for tools
    which the model knows from its training, with the names that it knows them by. Raises Unrepresentable for content
    that is not text, and InvalidRequest for tools that cannot be rendered in reasonable time.
    """
    from openai_harmony import Conversation, HarmonyError, RenderConversationConfig, Role

    try:
        names = [trained_names.get(tool["function"]["name"], "") for tool in tools]
        functions = [tool for tool, name in zip(tools, names, strict=True) if not is_trained(name)]
        conversation = Conversation.from_messages(
            [
                _build_system_message(effort, names),
                *_build_messages(messages, functions, answer_schema, trained_names),
            ]
        )
        tokens: list[int] = encoding.library.render_conversation_for_completion(
            # Thinking before past answers is already dropped. The library would also drop the thinking between calls.
            conversation,
            Role.ASSISTANT,
            RenderConversationConfig(auto_drop_analysis=False),
        )
    except HarmonyError as error:
        raise Unrepresentable(f"this conversation cannot be rendered in Harmony: {error}", param="input") from error
    except RecursionError as error:
        raise InvalidRequest("A tool's parameters are nested too deep.", param="tools") from error
    return tokens


def build_prefill(encoding: Encoding, thinking: str | None, answer: str | None) -> list[int]:
    """Returns the tokens of the beginning of the assistant's reply, which the model continues: thinking, an answer, or
    both."""
    start, channel, _, message, end, *_ = encoding.control_tokens
    tokens: list[int] = []
    if thinking is not None:
        tokens += [channel, *encoding.encode("analysis"), message, *encoding.encode(thinking)]
    if thinking is not None and answer is not None:
        tokens += [end, start, *encoding.encode("assistant")]
    if answer is not None:
        tokens += [channel, *encoding.encode("final"), message, *encoding.encode(answer)]
    return tokens


def build_empty_thinking(encoding: Encoding) -> list[int]:
    """Returns a prefill with empty thinking, so that the model writes a call or an answer next."""
    control_tokens = encoding.control_tokens
    start_of_reply = [control_tokens.start, *encoding.encode("assistant")]
    return [*build_prefill(encoding, "", None), control_tokens.end, *start_of_reply]


def text_of_message(message: Json) -> str:
    """Returns the text of a chat message. Raises Unrepresentable for content that is not text."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    for part in content:
        if part.get("type") != "text":
            error_message = f"this model only reads text: leave the {part.get('type')} out"
            raise Unrepresentable(error_message, param="input")
    return "\n".join(part["text"] for part in content)


def _build_system_message(effort: HarmonyEffort, trained_names: Sequence[str]) -> Any:
    from openai_harmony import Message, ReasoningEffort, Role, SystemContent

    today = datetime.now(UTC).date().isoformat()
    levels = {"low": ReasoningEffort.LOW, "medium": ReasoningEffort.MEDIUM, "high": ReasoningEffort.HIGH}
    content = SystemContent.new().with_reasoning_effort(levels[effort]).with_conversation_start_date(today)
    for namespace in build_namespaces(trained_names):
        content = content.with_tools(namespace)
    return Message.from_role_and_content(Role.SYSTEM, content)


def _build_text_message(author: Any, text: str) -> Any:
    from openai_harmony import Message, TextContent

    return Message(author=author, content=[TextContent(text=piece) for piece in split_text(text)])


def _build_messages(
    messages: Sequence[Json], tools: Sequence[Json], answer: Json | None, trained_names: Mapping[str, str]
) -> list[Any]:
    leading = next(
        (index for index, message in enumerate(messages) if message["role"] not in _INSTRUCTION_ROLES), len(messages)
    )
    instructions = "\n\n".join(text_of_message(message) for message in messages[:leading])
    built = (
        [_build_developer_message(instructions, tools, answer)] if instructions or tools or answer is not None else []
    )
    finals = [index for index, message in enumerate(messages) if _is_final(message)]
    names: dict[str, str] = {}
    for index, message in enumerate(messages[leading:], leading):
        is_past = bool(finals) and index <= finals[-1]
        built += _build_message(message, names, trained_names, is_past=is_past)
    return built


_INSTRUCTION_ROLES: Final = ("system", "developer")


def _is_final(message: Json) -> bool:
    return message["role"] == "assistant" and bool(message.get("content")) and not message.get("tool_calls")


def _build_developer_message(instructions: str, tools: Sequence[Json], answer: Json | None) -> Any:
    from openai_harmony import DeveloperContent, Message, Role, TextContent, ToolDescription

    if answer is not None:
        format = f"# Response Formats\n\n## answer\n\n{orjson.dumps(answer).decode()}"
        instructions = f"{instructions}\n\n{format}" if instructions else format
    content = DeveloperContent.new()
    contents: list[Any] = []
    if len(list(split_text(instructions))) > 1:
        # In the format in which the library renders instructions.
        text = f"# Instructions\n\n{instructions}" + ("\n\n" if tools else "")
        contents = [TextContent(text=piece) for piece in split_text(text)]
    elif instructions:
        content = content.with_instructions(instructions)
    if tools:
        functions = [tool["function"] for tool in tools]
        _refuse_long_stretches(functions)
        content = content.with_function_tools(
            [
                ToolDescription.new(
                    function["name"], function.get("description") or "", _add_enum_types(function.get("parameters"))
                )
                for function in functions
            ]
        )
    if tools or not contents:
        contents.append(content)
    return Message.from_role_and_contents(Role.DEVELOPER, contents)


def _refuse_long_stretches(value: Any) -> None:
    if isinstance(value, str) and measure_longest_stretch(value) > _MAX_TOOL_TEXT_STRETCH:
        message = f"A text of a tool has more than {_MAX_TOOL_TEXT_STRETCH} characters without a blank or a digit."
        raise InvalidRequest(message, param="tools")
    if isinstance(value, dict):
        _refuse_long_stretches([*value, *value.values()])
    elif isinstance(value, list):
        for entry in value:
            _refuse_long_stretches(entry)


def _add_enum_types(schema: Any) -> Any:
    """Returns the schema with `type: string` beside every enum of strings. Without the type the library does not write
    the enum into the prompt."""
    if isinstance(schema, list):
        return [_add_enum_types(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    typed = {key: _add_enum_types(value) if key not in ("enum", "const") else value for key, value in schema.items()}
    enum = schema.get("enum")
    if "type" not in schema and isinstance(enum, list) and enum and all(isinstance(option, str) for option in enum):
        typed["type"] = "string"
    return typed


def _build_message(
    message: Json, names: dict[str, str], trained_names: Mapping[str, str], *, is_past: bool
) -> list[Any]:
    """Returns the Harmony messages of a chat message. Thinking before a past final answer is dropped; thinking between
    calls is not. `names` maps the ids of calls to the names of their functions."""
    from openai_harmony import Author, Role

    text = text_of_message(message)
    role = message["role"]
    if role in _INSTRUCTION_ROLES:
        return [_build_developer_message(text, (), None)]
    if role == "user":
        return [_build_text_message(Author(role=Role.USER), text)]
    if role == "tool":
        form = find_call_header(names.get(message["tool_call_id"], ""), trained_names)
        author = Author.new(Role.TOOL, form.recipient)
        result = _build_text_message(author, text)
        return [result.with_recipient("assistant").with_channel(form.channels[0])]
    built = []
    calls = message.get("tool_calls") or ()
    if (thinking := message.get("reasoning_content")) and not is_past:
        built.append(_build_text_message(Author(role=Role.ASSISTANT), thinking).with_channel("analysis"))
    if text:
        channel = "commentary" if calls else "final"
        built.append(_build_text_message(Author(role=Role.ASSISTANT), text).with_channel(channel))
    for call in calls:
        function = call["function"]
        _refuse_long_stretches(function["name"])
        names[call["id"]] = function["name"]
        form = find_call_header(function["name"], trained_names)
        built.append(
            _build_text_message(Author(role=Role.ASSISTANT), function["arguments"])
            .with_channel(form.channels[0])
            .with_recipient(form.recipient)
            .with_content_type(form.written_type)
        )
    return built
