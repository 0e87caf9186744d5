"""A chat as the tokens of a conversation in Harmony. https://cookbook.openai.com/articles/openai-harmony"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import orjson

from providers.harmony.encoding import Encoding
from providers.harmony.text_splitting import longest_run_length, split_text
from translation.errors import InvalidRequest, Unrepresentable
from translation.representation.json_types import Json

HarmonyEffort = Literal["low", "medium", "high"]

_JSON: Final = "<|constrain|>json"
_FUNCTIONS: Final = "functions"

_MAX_TOOL_TEXT_RUN: Final = 4096
"""Characters of a run without a break in a text of a tool: the library writes tools itself, in one piece."""


def render_conversation(
    encoding: Encoding,
    messages: Sequence[Json],
    tools: Sequence[Json],
    effort: HarmonyEffort,
    answer_schema: Json | None,
) -> list[int]:
    """The tokens up to where the assistant's next message goes on with its header.

    `answer`: the schema that a final answer is held to. Raises Unrepresentable for what is no text, and
    InvalidRequest for tools that cannot be written in reasonable time.
    """
    from openai_harmony import Conversation, HarmonyError, RenderConversationConfig, Role

    try:
        conversation = Conversation.from_messages(
            [_system_message(effort), *_build_messages(messages, tools, answer_schema)]
        )
        tokens: list[int] = encoding.library.render_conversation_for_completion(
            # What was thought is left out before it gets here: the library would also drop it between calls.
            conversation,
            Role.ASSISTANT,
            RenderConversationConfig(auto_drop_analysis=False),
        )
    except HarmonyError as error:
        raise Unrepresentable(f"this conversation cannot be said in Harmony: {error}", param="input") from error
    except RecursionError as error:
        raise InvalidRequest("A tool's parameters are nested too deep.", param="tools") from error
    return tokens


def build_prefill(encoding: Encoding, thought: str | None, answer: str | None) -> list[int]:
    """What the assistant has said already of the message that it goes on with: a thought, an answer, or both."""
    start, channel, _, message, end, *_ = encoding.control_tokens
    tokens: list[int] = []
    if thought is not None:
        tokens += [channel, *encoding.encode("analysis"), message, *encoding.encode(thought)]
    if thought is not None and answer is not None:
        tokens += [end, start, *encoding.encode("assistant")]
    if answer is not None:
        tokens += [channel, *encoding.encode("final"), message, *encoding.encode(answer)]
    return tokens


def build_empty_thought(encoding: Encoding) -> list[int]:
    """A thought that is over before it began: what follows is a call or an answer."""
    marks = encoding.control_tokens
    return [*build_prefill(encoding, "", None), marks.end, marks.start, *encoding.encode("assistant")]


def text_of_message(message: Json) -> str:
    """The text of a chat message."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    for part in content:
        if part.get("type") != "text":
            error_message = f"this model reads text only: leave the {part.get('type')} out"
            raise Unrepresentable(error_message, param="input")
    return "\n".join(part["text"] for part in content)


def _system_message(effort: HarmonyEffort) -> Any:
    from openai_harmony import Message, ReasoningEffort, Role, SystemContent

    today = datetime.now(UTC).date().isoformat()
    levels = {"low": ReasoningEffort.LOW, "medium": ReasoningEffort.MEDIUM, "high": ReasoningEffort.HIGH}
    content = SystemContent.new().with_reasoning_effort(levels[effort]).with_conversation_start_date(today)
    return Message.from_role_and_content(Role.SYSTEM, content)


def _text_message(author: Any, text: str) -> Any:
    from openai_harmony import Message, TextContent

    return Message(author=author, content=[TextContent(text=piece) for piece in split_text(text)])


def _build_messages(messages: Sequence[Json], tools: Sequence[Json], answer: Json | None) -> list[Any]:
    leading = next(
        (place for place, each in enumerate(messages) if each["role"] not in _INSTRUCTION_ROLES), len(messages)
    )
    instructions = "\n\n".join(text_of_message(each) for each in messages[:leading])
    built = [_developer_message(instructions, tools, answer)] if instructions or tools or answer is not None else []
    finals = [place for place, each in enumerate(messages) if _is_final(each)]
    names: dict[str, str] = {}
    for place, message in enumerate(messages[leading:], leading):
        is_past = bool(finals) and place <= finals[-1]
        built += _build_message(message, names, is_past=is_past)
    return built


_INSTRUCTION_ROLES: Final = ("system", "developer")


def _is_final(message: Json) -> bool:
    return message["role"] == "assistant" and bool(message.get("content")) and not message.get("tool_calls")


def _developer_message(instructions: str, tools: Sequence[Json], answer: Json | None) -> Any:
    from openai_harmony import DeveloperContent, Message, Role, TextContent, ToolDescription

    if answer is not None:
        format = f"# Response Formats\n\n## answer\n\n{orjson.dumps(answer).decode()}"
        instructions = f"{instructions}\n\n{format}" if instructions else format
    content = DeveloperContent.new()
    written: list[Any] = []
    if len(list(split_text(instructions))) > 1:
        # As the library writes them.
        whole = f"# Instructions\n\n{instructions}" + ("\n\n" if tools else "")
        written = [TextContent(text=piece) for piece in split_text(whole)]
    elif instructions:
        content = content.with_instructions(instructions)
    if tools:
        functions = [tool["function"] for tool in tools]
        _reject_long_runs(functions)
        content = content.with_function_tools(
            [
                ToolDescription.new(
                    each["name"], each.get("description") or "", _add_enum_types(each.get("parameters"))
                )
                for each in functions
            ]
        )
    if tools or not written:
        written.append(content)
    return Message.from_role_and_contents(Role.DEVELOPER, written)


def _reject_long_runs(value: Any) -> None:
    if isinstance(value, str) and longest_run_length(value) > _MAX_TOOL_TEXT_RUN:
        message = f"A text of a tool has more than {_MAX_TOOL_TEXT_RUN} characters without a blank or a digit."
        raise InvalidRequest(message, param="tools")
    if isinstance(value, dict):
        _reject_long_runs([*value, *value.values()])
    elif isinstance(value, list):
        for each in value:
            _reject_long_runs(each)


def _add_enum_types(schema: Any) -> Any:
    """The library says a choice of texts to the model only where the schema says beside it that they are texts."""
    if isinstance(schema, list):
        return [_add_enum_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    typed = {key: _add_enum_types(each) if key not in ("enum", "const") else each for key, each in schema.items()}
    enum = schema.get("enum")
    if "type" not in schema and isinstance(enum, list) and enum and all(isinstance(each, str) for each in enum):
        typed["type"] = "string"
    return typed


def _build_message(message: Json, names: dict[str, str], *, is_past: bool) -> list[Any]:
    """What was thought before a final answer is not said again; what was thought between calls is."""
    from openai_harmony import Author, Role

    text = text_of_message(message)
    role = message["role"]
    if role in _INSTRUCTION_ROLES:
        return [_developer_message(text, (), None)]
    if role == "user":
        return [_text_message(Author(role=Role.USER), text)]
    if role == "tool":
        name = names.get(message["tool_call_id"], "")
        author = Author.new(Role.TOOL, f"{_FUNCTIONS}.{name}")
        result = _text_message(author, text)
        return [result.with_recipient("assistant").with_channel("commentary")]
    built = []
    calls = message.get("tool_calls") or ()
    if (thought := message.get("reasoning_content")) and not is_past:
        built.append(_text_message(Author(role=Role.ASSISTANT), thought).with_channel("analysis"))
    if text:
        channel = "commentary" if calls else "final"
        built.append(_text_message(Author(role=Role.ASSISTANT), text).with_channel(channel))
    for call in calls:
        function = call["function"]
        _reject_long_runs(function["name"])
        names[call["id"]] = function["name"]
        built.append(
            _text_message(Author(role=Role.ASSISTANT), function["arguments"])
            .with_channel("commentary")
            .with_recipient(f"{_FUNCTIONS}.{function['name']}")
            .with_content_type(_JSON)
        )
    return built
