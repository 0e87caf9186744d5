"""Every field of the items and tools of a Responses request, each once.

A case is named as the schema names the field: the object it is in, and its key.
"""

from typing import Any, Final

from tests.unit.gateway.planning.every_field.field_cases import Case
from translation.representation.json_types import Json

_PIXEL: Final = "data:image/png;base64,iVBORw0KGgo="
_PAPER: Final = "data:application/pdf;base64,JVBERi0="
_HI: Final[Json] = {"type": "message", "role": "user", "content": "Hi"}
_PARAMETERS: Final[Json] = {"type": "object", "properties": {}}


def _body(*items: Json, **more: Any) -> Json:
    return {"input": [*items, _HI], **more}


def _item(place: str, item: Json, key: str, value: Any, *after: Json, needle: str | None = None) -> Case:
    return Case(f"input.{place}", _body(item, *after), _body({**item, key: value}, *after), needle)


def _new(place: str, *items: Json, value: str | None = None) -> Case:
    """The field is one that the item cannot be without."""
    return Case(f"input.{place}", _body(), _body(*items), value)


def _part(place: str, part: Json, key: str, value: Any, needle: str | None = None) -> Case:
    def body(part: Json) -> Json:
        return {"input": [{"role": "user", "content": [{"type": "input_text", "text": "See"}, part]}]}

    return Case(f"input.content.{place}", body(part), body({**part, key: value}), needle)


def _call(kind: str, **said: Any) -> Json:
    return {"type": kind, "call_id": "c1", **said}


_AGENT_MESSAGE: Final[Json] = {
    "type": "agent_message",
    "author": "root",
    "recipient": "helper",
    "content": [{"type": "input_text", "text": "Go"}],
}
_AGENT_CALL: Final = _call("multi_agent_call", action="wait_agent", arguments="{}")
_AGENT_OUT: Final = _call(
    "multi_agent_call_output", action="wait_agent", output=[{"type": "output_text", "text": "ok"}]
)
_F: Final = _call("function_call", name="f", arguments="{}")
_F_OUT: Final = _call("function_call_output", output="done")
_C: Final = _call("custom_tool_call", name="f", input="x")
_C_OUT: Final = _call("custom_tool_call_output", output="done")
_SH: Final = _call("shell_call", action={"commands": ["ls"]})
_SH_OUT: Final = _call("shell_call_output", output=[])
_LS: Final = _call("local_shell_call", action={"type": "exec", "command": ["ls"]})
_LS_OUT: Final = _call("local_shell_call_output", output="x")
_AP: Final = _call("apply_patch_call", operation={"type": "delete_file", "path": "p"})
_AP_OUT: Final = _call("apply_patch_call_output", status="completed")
_CU: Final = _call("computer_call", action={"type": "wait"})
_CU_OUT: Final = _call("computer_call_output", output={"type": "computer_screenshot", "image_url": _PIXEL})
_TS: Final = _call("tool_search_call", arguments={}, execution="client")
_TS_OUT: Final = _call("tool_search_output", tools=[], execution="client")
_THOUGHT: Final[Json] = {"type": "reasoning", "summary": []}
_ANSWER: Final[Json] = {"role": "assistant", "content": "Hm"}
_FUNCTION: Final[Json] = {"type": "function", "name": "f", "parameters": _PARAMETERS}
_CUSTOM: Final[Json] = {"type": "custom", "name": "f"}


def _tool(tool: Json, key: str, value: Any, needle: str | None = None) -> Case:
    return Case(f"tools.{key}", _body(tools=[tool]), _body(tools=[{**tool, key: value}]), needle)


def _offered(tool: Json, key: str, value: str | None = None) -> Case:
    return Case(f"tools.{key}", _body(), _body(tools=[tool]), value)


def _chosen(choice: Json, key: str, tools: list[Json], plain: Any = "auto", value: str | None = None) -> Case:
    return Case(
        f"tool_choice.{key}", _body(tools=tools, tool_choice=plain), _body(tools=tools, tool_choice=choice), value
    )


_NAMESPACE: Final[Json] = {"type": "namespace", "name": "ns", "tools": [_FUNCTION]}
_MCP: Final[Json] = {"type": "mcp", "server_label": "s", "server_url": "https://mcp.example"}
_MCP_CALL: Final[Json] = {"type": "mcp_call", "server_label": "s", "name": "t", "arguments": "{}"}
_LISTED: Final[Json] = {"name": "t", "input_schema": {}, "description": "d", "annotations": {}}
_MCP_LIST: Final[Json] = {"type": "mcp_list_tools", "server_label": "s", "tools": [_LISTED]}
_SCREEN: Final[Json] = {"type": "computer_use_preview", "display_width": 1, "display_height": 1, "environment": "mac"}
_SEARCHES: Final[Json] = {"type": "tool_search", "execution": "client"}
_IMAGE: Final[Json] = {"type": "input_image", "image_url": _PIXEL}
_AUDIO: Final[Json] = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
_FILE: Final[Json] = {"type": "input_file", "file_data": _PAPER, "filename": "a.pdf"}
_TWO: Final = [_FUNCTION, {**_FUNCTION, "name": "g"}]

CASES: Final[dict[str, Case]] = {
    "AdditionalTools.tools": _new("tools", {"type": "additional_tools", "role": "developer", "tools": [_FUNCTION]}),
    "AllowedTools.mode": _chosen(
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}, "mode", [_FUNCTION]
    ),
    "AllowedTools.tools": _chosen(
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]}, "tools", _TWO
    ),
    "ApplyPatchCall.operation": _new(
        "operation", _AP | {"operation": {"type": "delete_file", "path": "PATH"}}, _AP_OUT, value="PATH"
    ),
    "ApplyPatchCallOutput.status": _item("status", _AP_OUT, "status", "failed", needle="failed")
    if 0
    else Case("input.status", _body(_AP, _AP_OUT), _body(_AP, {**_AP_OUT, "status": "failed"}), "failed"),
    "ApplyPatchCallOutput.output": Case(
        "input.output", _body(_AP, _AP_OUT), _body(_AP, {**_AP_OUT, "output": "WORDS"}), "WORDS"
    ),
    "AgentMessage.author": _new("author", _AGENT_MESSAGE | {"author": "NAME"}, value="NAME"),
    "AgentMessage.recipient": _new("recipient", _AGENT_MESSAGE | {"recipient": "NAME"}, value="NAME"),
    "AgentMessage.content": _new(
        "content", _AGENT_MESSAGE | {"content": [{"type": "input_text", "text": "WORDS"}]}, value="WORDS"
    ),
    "EncryptedContent.encrypted_content": _new(
        "content", _AGENT_MESSAGE | {"content": [{"type": "encrypted_content", "encrypted_content": "SECRET"}]}
    ),
    "MultiAgentCall.action": _new("action", _AGENT_CALL | {"action": "NAME"}, _AGENT_OUT, value="NAME"),
    "MultiAgentCall.arguments": _new(
        "arguments", _AGENT_CALL | {"arguments": '{"FIELD":1}'}, _AGENT_OUT, value="FIELD"
    ),
    "MultiAgentCallOutput.output": _new(
        "output", _AGENT_CALL, _AGENT_OUT | {"output": [{"type": "output_text", "text": "WORDS"}]}, value="WORDS"
    ),
    "AssistantMessage.content": _new("content", {"role": "assistant", "content": "WORDS"}, value="WORDS"),
    "AssistantMessage.phase": _item("phase", _ANSWER, "phase", "commentary", needle="commentary"),
    "Audio.data": _part(
        "input_audio.data",
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        "input_audio",
        {"data": "BBBB", "format": "wav"},
        "BBBB",
    ),
    "Audio.format": _part(
        "input_audio.format",
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        "input_audio",
        {"data": "AAAA", "format": "mp3"},
        "mp3",
    ),
    "ChosenByName.name": _chosen({"type": "function", "name": "g"}, "name", _TWO),
    "ChosenByName.namespace": _chosen({"type": "function", "name": "f", "namespace": "ns"}, "namespace", [_NAMESPACE]),
    "ChosenServer.server_label": _chosen({"type": "mcp", "server_label": "s"}, "server_label", [_MCP]),
    "ChosenServer.name": _chosen(
        {"type": "mcp", "server_label": "s", "name": "t"}, "name", [_MCP], {"type": "mcp", "server_label": "s"}
    ),
    "CodeInterpreter.container": _offered({"type": "code_interpreter", "container": "cntr_1"}, "container", "cntr_1"),
    "CodeInterpreterCall.container_id": _new(
        "container_id", {"type": "code_interpreter_call", "container_id": "cntr_1"}
    ),
    "CodeInterpreterCall.code": _new(
        "code", {"type": "code_interpreter_call", "container_id": "cntr_1", "code": "CODE"}
    ),
    "ComputerCall.action": _new("action", _CU | {"action": {"type": "type", "text": "WORDS"}}, _CU_OUT, value="WORDS"),
    "ComputerCall.actions": _new(
        "actions", {**_CU, "action": None, "actions": [{"type": "type", "text": "WORDS"}]}, _CU_OUT, value="WORDS"
    ),
    "ComputerCallOutput.output": _new("output", _CU, _CU_OUT),
    "ComputerCallOutput.status": Case(
        "input.status", _body(_CU, _CU_OUT), _body(_CU, {**_CU_OUT, "status": "incomplete"})
    ),
    "ComputerUsePreview.display_width": _tool(_SCREEN, "display_width", 1234, "1234"),
    "ComputerUsePreview.display_height": _tool(_SCREEN, "display_height", 1234, "1234"),
    "ComputerUsePreview.environment": _tool(_SCREEN, "environment", "ubuntu", "ubuntu"),
    "ConfigurationUpdate.reasoning": _new(
        "reasoning", {"type": "configuration_update", "reasoning": {"effort": "low"}}
    ),
    "ConfigurationUpdate.text": _new("text", {"type": "configuration_update", "text": {"verbosity": "low"}}),
    "Custom.name": _offered(_CUSTOM | {"name": "NAME"}, "name", "NAME"),
    "Custom.description": _tool(_CUSTOM, "description", "WORDS", "WORDS"),
    "Custom.format": _tool(
        _CUSTOM, "format", {"type": "grammar", "syntax": "lark", "definition": "start: X"}, "start: X"
    ),
    "CustomToolCall.name": _new("name", _C | {"name": "NAME"}, _C_OUT, value="NAME"),
    "CustomToolCall.input": _new("input", _C | {"input": "WORDS"}, _C_OUT, value="WORDS"),
    "CustomToolCall.namespace": _item("namespace", _C, "namespace", "ns", _C_OUT, needle="ns"),
    "CustomToolCallOutput.output": _new("output", _C, _C_OUT | {"output": "WORDS"}, value="WORDS"),
    "CustomToolCallOutput.status": Case(
        "input.status", _body(_C, _C_OUT), _body(_C, {**_C_OUT, "status": "incomplete"})
    ),
    "DeleteFile.path": _new(
        "operation.path", _AP | {"operation": {"type": "delete_file", "path": "PATH"}}, _AP_OUT, value="PATH"
    ),
    "FileSearch.vector_store_ids": _offered(
        {"type": "file_search", "vector_store_ids": ["vs_1"]}, "vector_store_ids", "vs_1"
    ),
    "FileSearchCall.queries": _new("queries", {"type": "file_search_call", "queries": ["WORDS"]}, value="WORDS"),
    "Function.name": _offered(_FUNCTION | {"name": "NAME"}, "name", "NAME"),
    "Function.description": _tool(_FUNCTION, "description", "WORDS", "WORDS"),
    "Function.parameters": _tool(
        _FUNCTION, "parameters", {"type": "object", "properties": {"FIELD": {"type": "string"}}}, "FIELD"
    ),
    "Function.strict": _tool(_FUNCTION, "strict", True),
    "FunctionCall.name": _new("name", _F | {"name": "NAME"}, _F_OUT, value="NAME"),
    "FunctionCall.arguments": _new("arguments", _F | {"arguments": '{"FIELD": 1}'}, _F_OUT, value="FIELD"),
    "FunctionCall.namespace": _item("namespace", _F, "namespace", "ns", _F_OUT, needle="ns"),
    "FunctionCallOutput.output": _new("output", _F, _F_OUT | {"output": "WORDS"}, value="WORDS"),
    "FunctionCallOutput.status": Case("input.status", _body(_F, _F_OUT), _body(_F, {**_F_OUT, "status": "incomplete"})),
    "Grammar.definition": _tool(
        _CUSTOM, "format", {"type": "grammar", "syntax": "lark", "definition": "start: X"}, "start: X"
    ),
    "Grammar.syntax": _tool(_CUSTOM, "format", {"type": "grammar", "syntax": "regex", "definition": "X"}, "regex"),
    "ImageGenerationCall.result": _new("result", {"type": "image_generation_call", "result": "AAAA"}),
    "InputAudio.input_audio": _new("content.input_audio", {"role": "user", "content": [_AUDIO]}, value="AAAA"),
    "InputFile.file_data": _part("file_data", _FILE, "file_data", "data:application/pdf;base64,BBBB", "BBBB"),
    "InputFile.file_id": _part("file_id", _FILE, "file_id", "file_1"),
    "InputFile.file_url": _part("file_url", _FILE, "file_url", "https://example.com/b.pdf"),
    "InputFile.filename": _part("filename", _FILE, "filename", "NAME.pdf", "NAME.pdf"),
    "InputFile.detail": _part("detail", _FILE, "detail", "high"),
    "InputImage.image_url": _part("image_url", _IMAGE, "image_url", "data:image/png;base64,BBBB", "BBBB"),
    "InputImage.file_id": _new(
        "content.file_id", {"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]}
    ),
    "InputImage.detail": _part("detail", _IMAGE, "detail", "low"),
    "InputMessage.role": Case(
        "input.role", _body({"role": "user", "content": "a"}), _body({"role": "developer", "content": "a"})
    ),
    "InputMessage.content": _new("content", {"role": "user", "content": "WORDS"}, value="WORDS"),
    "InputText.text": _part("text", {"type": "input_text", "text": "a"}, "text", "WORDS", "WORDS"),
    "LocalShellAction.command": _new(
        "action.command", _LS | {"action": {"type": "exec", "command": ["WORDS"]}}, _LS_OUT, value="WORDS"
    ),
    "LocalShellCall.action": _new("action", _LS, _LS_OUT),
    "LocalShellCallOutput.output": _new("output", _LS, _LS_OUT | {"output": "WORDS"}, value="WORDS"),
    "LocalShellCallOutput.status": Case(
        "input.status", _body(_LS, _LS_OUT), _body(_LS, {**_LS_OUT, "status": "incomplete"})
    ),
    "Mcp.server_label": _offered(_MCP, "server_label"),
    "Mcp.server_url": _offered(_MCP, "server_url"),
    "Mcp.connector_id": _offered(_MCP | {"connector_id": "c"}, "connector_id"),
    "Mcp.tunnel_id": _offered(_MCP | {"tunnel_id": "t"}, "tunnel_id"),
    "Mcp.server_description": _offered(_MCP | {"server_description": "WORDS"}, "server_description"),
    "Mcp.defer_loading": _offered(_MCP | {"defer_loading": True}, "defer_loading"),
    "Mcp.allowed_callers": _offered(_MCP | {"allowed_callers": ["programmatic"]}, "allowed_callers"),
    "Mcp.headers": _offered(_MCP | {"headers": {"a": "b"}}, "headers"),
    "Mcp.authorization": _offered(_MCP | {"authorization": "t"}, "authorization"),
    "Mcp.allowed_tools": _offered(_MCP | {"allowed_tools": ["t"]}, "allowed_tools"),
    "Mcp.require_approval": _offered(_MCP | {"require_approval": "never"}, "require_approval"),
    "ToolFilter.tool_names": _offered(_MCP | {"allowed_tools": {"tool_names": ["t"]}}, "allowed_tools"),
    "ToolFilter.read_only": _offered(_MCP | {"allowed_tools": {"read_only": True}}, "allowed_tools"),
    "ApprovalFilter.always": _offered(_MCP | {"require_approval": {"always": {}}}, "require_approval"),
    "ApprovalFilter.never": _offered(_MCP | {"require_approval": {"never": {}}}, "require_approval"),
    "McpApprovalRequest.arguments": _new(
        "arguments", {"type": "mcp_approval_request", "server_label": "s", "name": "t", "arguments": "{}"}
    ),
    "McpApprovalResponse.approve": _new(
        "approve", {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}
    ),
    "McpApprovalResponse.content": _new(
        "content",
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True, "content": {"name": "Ann"}},
    ),
    "McpApprovalResponse.action": _new(
        "action", {"type": "mcp_approval_response", "approval_request_id": "a", "approve": False, "action": "cancel"}
    ),
    "McpCall.approval_request_id": _new("approval_request_id", _MCP_CALL | {"approval_request_id": "mcpr_1"}),
    "McpCall.arguments": _new("arguments", {"type": "mcp_call", "server_label": "s", "name": "t", "arguments": "{}"}),
    "McpCall.output": _new("output", _MCP_CALL | {"output": "done"}),
    "McpCall.error": _new("error", _MCP_CALL | {"error": "no"}),
    "McpError.message": _new("error", _MCP_CALL | {"error": {"message": "no"}}),
    "McpError.content": _new("error", _MCP_CALL | {"error": {"content": []}}),
    "McpListedTool.name": _new("tools", _MCP_LIST),
    "McpListedTool.input_schema": _new("tools", _MCP_LIST),
    "McpListedTool.description": _new("tools", _MCP_LIST),
    "McpListedTool.annotations": _new("tools", _MCP_LIST),
    "McpListTools.tools": _new("tools", {"type": "mcp_list_tools", "server_label": "s", "tools": []}),
    "Namespace.name": _offered(_NAMESPACE, "name", "ns"),
    "Namespace.description": _tool(_NAMESPACE, "description", "WORDS", "WORDS"),
    "Namespace.tools": _offered(_NAMESPACE, "tools"),
    "OutputText.text": _new(
        "content.text", {"role": "assistant", "content": [{"type": "output_text", "text": "WORDS"}]}, value="WORDS"
    ),
    "OutputText.annotations": Case(
        "input.content.annotations",
        _body({"role": "assistant", "content": [{"type": "output_text", "text": "a"}]}),
        _body(
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "output_text",
                        "text": "a",
                        "annotations": [
                            {
                                "type": "url_citation",
                                "url": "https://example.com/CITED",
                                "title": "t",
                                "start_index": 0,
                                "end_index": 1,
                            }
                        ],
                    }
                ],
            }
        ),
        "CITED",
    ),
    "Program.code": _new(
        "code",
        {"type": "program", "call_id": "p", "code": "CODE", "fingerprint": "x"},
        {"type": "program_output", "call_id": "p", "result": "r"},
    ),
    "ProgramOutput.result": _new(
        "result",
        {"type": "program", "call_id": "p", "code": "CODE", "fingerprint": "x"},
        {"type": "program_output", "call_id": "p", "result": "r"},
    ),
    "Refusal.refusal": _new(
        "content.refusal", {"role": "assistant", "content": [{"type": "refusal", "refusal": "WORDS"}]}, value="WORDS"
    ),
    "Screenshot.image_url": _new(
        "output.image_url",
        _CU,
        _CU_OUT | {"output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,BBBB"}},
        value="BBBB",
    ),
    "Screenshot.file_id": _new(
        "output.file_id", _CU, _CU_OUT | {"output": {"type": "computer_screenshot", "file_id": "file_1"}}
    ),
    "ShellAction.commands": _new("action.commands", _SH | {"action": {"commands": ["WORDS"]}}, _SH_OUT, value="WORDS"),
    "ShellAction.timeout_ms": _new(
        "action.timeout_ms", _SH | {"action": {"commands": ["a"], "timeout_ms": 1234}}, _SH_OUT, value="1234"
    ),
    "ShellAction.max_output_length": _new(
        "action.max_output_length",
        _SH | {"action": {"commands": ["a"], "max_output_length": 1234}},
        _SH_OUT,
        value="1234",
    ),
    "ShellCall.action": _new("action", _SH, _SH_OUT),
    "ShellCallOutput.output": _new("output", _SH, _SH_OUT),
    "ShellCallOutput.max_output_length": Case(
        "input.max_output_length", _body(_SH, _SH_OUT), _body(_SH, {**_SH_OUT, "max_output_length": 1234}), "1234"
    ),
    "ShellCallOutput.status": Case(
        "input.status", _body(_SH, _SH_OUT), _body(_SH, {**_SH_OUT, "status": "incomplete"})
    ),
    **{
        f"ShellOutput.{key}": _new(
            f"output.{key}",
            _SH,
            _SH_OUT | {"output": [{"stdout": "", "stderr": "", "outcome": {"type": "timeout"}, **said}]},
            value="WORDS",
        )
        for key, said in (
            ("stdout", {"stdout": "WORDS"}),
            ("stderr", {"stderr": "WORDS"}),
            ("outcome", {"outcome": {"type": "exit", "exit_code": "WORDS"}}),
        )
    },
    "SummaryText.text": _new(
        "summary.text", _THOUGHT | {"summary": [{"type": "summary_text", "text": "WORDS"}]}, _ANSWER, value="WORDS"
    ),
    "ReasoningText.text": _new(
        "content.text", _THOUGHT | {"content": [{"type": "reasoning_text", "text": "WORDS"}]}, _ANSWER, value="WORDS"
    ),
    "ReasoningItem.summary": _new(
        "summary", _THOUGHT | {"summary": [{"type": "summary_text", "text": "WORDS"}]}, _ANSWER, value="WORDS"
    ),
    "ReasoningItem.content": _new(
        "content", _THOUGHT | {"content": [{"type": "reasoning_text", "text": "WORDS"}]}, _ANSWER, value="WORDS"
    ),
    "ReasoningItem.encrypted_content": _new(
        "encrypted_content", _THOUGHT | {"id": "rs_1", "encrypted_content": "SEALED"}, _ANSWER, value="SEALED"
    ),
    "ToolSearch.execution": _offered({"type": "tool_search", "execution": "server"}, "execution"),
    "ToolSearch.description": _tool(_SEARCHES, "description", "WORDS", "WORDS"),
    "ToolSearch.parameters": _tool(
        _SEARCHES, "parameters", {"type": "object", "properties": {"FIELD": {"type": "string"}}}, "FIELD"
    ),
    "ToolSearchCall.arguments": _new("arguments", _TS | {"arguments": {"q": "WORDS"}}, _TS_OUT, value="WORDS"),
    "ToolSearchCall.execution": _new("execution", {"type": "tool_search_call", "arguments": {}, "execution": "server"}),
    "ToolSearchOutput.tools": _new("tools", _TS, _TS_OUT | {"tools": [_FUNCTION | {"name": "NAME"}]}, value="NAME"),
    "ToolSearchOutput.status": Case(
        "input.status", _body(_TS, _TS_OUT), _body(_TS, {**_TS_OUT, "status": "incomplete"})
    ),
    "ToolSearchOutput.execution": _new("execution", {"type": "tool_search_output", "tools": [], "execution": "server"}),
    "WebSearchCall.action": _new(
        "action", {"type": "web_search_call", "action": {"type": "search", "query": "WORDS"}}, value="WORDS"
    ),
    "WriteFile.path": _new(
        "operation.path",
        _AP | {"operation": {"type": "create_file", "path": "PATH", "diff": "+"}},
        _AP_OUT,
        value="PATH",
    ),
    "WriteFile.diff": _new(
        "operation.diff",
        _AP | {"operation": {"type": "create_file", "path": "PATH", "diff": "DIFF"}},
        _AP_OUT,
        value="DIFF",
    ),
}
