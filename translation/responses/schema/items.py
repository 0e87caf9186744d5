"""The shapes of the items that `input` of a Responses request may hold.

OpenAI requires `id` and `status` on most items, and many clients omit them. So they are checked only if present.
"""

from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import Discriminator, Tag
from typing_extensions import TypedDict

from translation.responses.input_items import find_item_kind
from translation.responses.schema.parts import (
    AgentContent,
    AssistantContent,
    InputContent,
    OutputContent,
    OutputText,
    ReasoningText,
    Status,
    SummaryText,
)
from translation.responses.schema.tools import Tools
from translation.validation import discriminate_by, discriminate_by_shape


class _Item(TypedDict):
    id: NotRequired[str | None]


class _WithStatus(_Item):
    status: NotRequired[Status | None]


class _Hosted(_Item):
    """A call of a hosted tool, or its output. The values of `status` differ from tool to tool."""

    status: NotRequired[str | None]


class InputMessage(_WithStatus):
    type: NotRequired[Literal["message"] | None]
    role: Literal["user", "system", "developer"]
    content: InputContent


class AssistantMessage(_WithStatus):
    type: NotRequired[Literal["message"] | None]
    role: Literal["assistant"]
    content: AssistantContent
    phase: NotRequired[Literal["commentary", "final_answer"] | None]


Message: TypeAlias = Annotated[
    Annotated[InputMessage, Tag("user")]
    | Annotated[InputMessage, Tag("system")]
    | Annotated[InputMessage, Tag("developer")]
    | Annotated[AssistantMessage, Tag("assistant")],
    discriminate_by("role"),
]


class FunctionCall(_WithStatus):
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    namespace: NotRequired[str | None]


class FunctionCallOutput(_WithStatus):
    """The output of a call. Codex sends the name of the tool instead of the id of its call."""

    type: Literal["function_call_output"]
    call_id: NotRequired[str | None]
    name: NotRequired[str | None]
    namespace: NotRequired[str | None]
    output: OutputContent


class AgentMessage(_Item):
    type: Literal["agent_message"]
    author: str
    recipient: str
    content: AgentContent


class MultiAgentCall(_Item):
    type: Literal["multi_agent_call"]
    call_id: str
    action: str
    arguments: str


class MultiAgentCallOutput(_Item):
    type: Literal["multi_agent_call_output"]
    call_id: str
    action: str
    output: list[OutputText]


class CustomToolCall(_WithStatus):
    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str
    namespace: NotRequired[str | None]


class CustomToolCallOutput(_WithStatus):
    type: Literal["custom_tool_call_output"]
    call_id: str
    output: OutputContent


class ReasoningItem(_WithStatus):
    type: Literal["reasoning"]
    summary: list[SummaryText]
    content: NotRequired[list[ReasoningText] | None]
    encrypted_content: NotRequired[str | None]


class ItemReference(TypedDict):
    type: NotRequired[Literal["item_reference"] | None]
    id: str


class Compaction(_Item):
    type: Literal["compaction"]
    encrypted_content: str


class CompactionTrigger(_Item):
    type: Literal["compaction_trigger"]


class ConfigurationUpdate(_Item):
    type: Literal["configuration_update"]
    reasoning: NotRequired[dict[str, Any] | None]
    text: NotRequired[dict[str, Any] | None]


class AdditionalTools(_Item):
    type: Literal["additional_tools"]
    role: Literal["developer"]
    tools: Tools


class FileSearchCall(_Hosted):
    type: Literal["file_search_call"]
    queries: list[str]


class WebSearchCall(_Hosted):
    type: Literal["web_search_call"]
    action: NotRequired[dict[str, Any] | None]


class ComputerCall(_WithStatus):
    type: Literal["computer_call"]
    call_id: str
    action: NotRequired[dict[str, Any] | None]
    actions: NotRequired[list[dict[str, Any]] | None]


class Screenshot(TypedDict):
    type: Literal["computer_screenshot"]
    image_url: NotRequired[str | None]
    file_id: NotRequired[str | None]


class ComputerCallOutput(_WithStatus):
    type: Literal["computer_call_output"]
    call_id: str
    output: Screenshot


class CodeInterpreterCall(_Hosted):
    type: Literal["code_interpreter_call"]
    container_id: str
    code: NotRequired[str | None]


class ImageGenerationCall(_Hosted):
    type: Literal["image_generation_call"]
    result: NotRequired[str | None]


class LocalShellAction(TypedDict):
    type: Literal["exec"]
    command: list[str]


class LocalShellCall(_WithStatus):
    type: Literal["local_shell_call"]
    call_id: str
    action: LocalShellAction


class LocalShellCallOutput(_WithStatus):
    """The output of a local shell call. Its `id` is the call's `call_id`. Codex and others send `call_id` as well, or
    instead."""

    type: Literal["local_shell_call_output"]
    call_id: NotRequired[str | None]
    output: str


class ShellAction(TypedDict):
    commands: list[str]
    timeout_ms: NotRequired[int | None]
    max_output_length: NotRequired[int | None]


class ShellCall(_WithStatus):
    type: Literal["shell_call"]
    call_id: str
    action: ShellAction


class ShellOutput(TypedDict):
    stdout: str
    stderr: str
    outcome: dict[str, Any]


class ShellCallOutput(_WithStatus):
    type: Literal["shell_call_output"]
    call_id: str
    output: list[ShellOutput]
    max_output_length: NotRequired[int | None]


class WriteFile(TypedDict):
    type: Literal["create_file", "update_file"]
    path: str
    diff: str


class DeleteFile(TypedDict):
    type: Literal["delete_file"]
    path: str


class ApplyPatchCall(_WithStatus):
    type: Literal["apply_patch_call"]
    call_id: str
    operation: Annotated[
        Annotated[WriteFile, Tag("create_file")]
        | Annotated[WriteFile, Tag("update_file")]
        | Annotated[DeleteFile, Tag("delete_file")],
        discriminate_by("type"),
    ]


class ApplyPatchCallOutput(_Item):
    type: Literal["apply_patch_call_output"]
    call_id: str
    status: Literal["completed", "failed"]
    output: NotRequired[str | None]


class McpListedTool(TypedDict):
    name: str
    input_schema: dict[str, Any]
    description: NotRequired[str | None]
    annotations: NotRequired[dict[str, Any] | None]


class McpListTools(_Item):
    type: Literal["mcp_list_tools"]
    server_label: str
    tools: list[McpListedTool]


class McpError(TypedDict):
    message: NotRequired[str | None]
    content: NotRequired[list[dict[str, Any]] | None]


class McpCall(_Hosted):
    type: Literal["mcp_call"]
    server_label: str
    name: str
    arguments: str
    approval_request_id: NotRequired[str | None]
    output: NotRequired[str | None]
    error: NotRequired[
        Annotated[Annotated[str, Tag("plain")] | Annotated[McpError, Tag("object")], discriminate_by_shape(str)] | None
    ]


class McpApprovalRequest(_Item):
    type: Literal["mcp_approval_request"]
    server_label: str
    name: str
    arguments: str


class McpApprovalResponse(_Item):
    type: Literal["mcp_approval_response"]
    approval_request_id: str
    approve: bool
    content: NotRequired[dict[str, Any] | None]
    action: NotRequired[Literal["accept", "decline", "cancel"] | None]


class ToolSearchCall(_WithStatus):
    type: Literal["tool_search_call"]
    arguments: Any
    call_id: NotRequired[str | None]
    execution: NotRequired[Literal["server", "client"] | None]


class ToolSearchOutput(_WithStatus):
    type: Literal["tool_search_output"]
    tools: Tools
    call_id: NotRequired[str | None]
    execution: NotRequired[Literal["server", "client"] | None]


class Program(_Item):
    type: Literal["program"]
    call_id: str
    code: str
    fingerprint: str


class ProgramOutput(_Hosted):
    type: Literal["program_output"]
    call_id: str
    result: str


def _kind_of(item: object) -> str | None:
    return find_item_kind(item) if isinstance(item, dict) else None


_kind_of.__name__ = "type"  # validation errors name the discriminating key by the function's name

InputItem: TypeAlias = Annotated[
    Annotated[Message, Tag("message")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[FunctionCallOutput, Tag("function_call_output")]
    | Annotated[AgentMessage, Tag("agent_message")]
    | Annotated[MultiAgentCall, Tag("multi_agent_call")]
    | Annotated[MultiAgentCallOutput, Tag("multi_agent_call_output")]
    | Annotated[CustomToolCall, Tag("custom_tool_call")]
    | Annotated[CustomToolCallOutput, Tag("custom_tool_call_output")]
    | Annotated[ReasoningItem, Tag("reasoning")]
    | Annotated[ItemReference, Tag("item_reference")]
    | Annotated[Compaction, Tag("compaction")]
    | Annotated[CompactionTrigger, Tag("compaction_trigger")]
    | Annotated[ConfigurationUpdate, Tag("configuration_update")]
    | Annotated[AdditionalTools, Tag("additional_tools")]
    | Annotated[FileSearchCall, Tag("file_search_call")]
    | Annotated[WebSearchCall, Tag("web_search_call")]
    | Annotated[ComputerCall, Tag("computer_call")]
    | Annotated[ComputerCallOutput, Tag("computer_call_output")]
    | Annotated[CodeInterpreterCall, Tag("code_interpreter_call")]
    | Annotated[ImageGenerationCall, Tag("image_generation_call")]
    | Annotated[LocalShellCall, Tag("local_shell_call")]
    | Annotated[LocalShellCallOutput, Tag("local_shell_call_output")]
    | Annotated[ShellCall, Tag("shell_call")]
    | Annotated[ShellCallOutput, Tag("shell_call_output")]
    | Annotated[ApplyPatchCall, Tag("apply_patch_call")]
    | Annotated[ApplyPatchCallOutput, Tag("apply_patch_call_output")]
    | Annotated[McpListTools, Tag("mcp_list_tools")]
    | Annotated[McpCall, Tag("mcp_call")]
    | Annotated[McpApprovalRequest, Tag("mcp_approval_request")]
    | Annotated[McpApprovalResponse, Tag("mcp_approval_response")]
    | Annotated[ToolSearchCall, Tag("tool_search_call")]
    | Annotated[ToolSearchOutput, Tag("tool_search_output")]
    | Annotated[Program, Tag("program")]
    | Annotated[ProgramOutput, Tag("program_output")],
    Discriminator(_kind_of),
]
