"""The MCP server of the notes: three tools, and the notes that they write and find."""

from collections.abc import Callable
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

_MAX_NOTES: Final = 1000
_MAX_CHARS: Final = 10_000

# The demo model knows tools with these names. It confuses tools whose arguments have different names.
_ONE_TEXT: Final = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_NOTHING: Final = {"type": "object", "properties": {}}
_READ_ONLY: Final = ToolAnnotations(read_only_hint=True)
_ADDING: Final = ToolAnnotations(read_only_hint=False, destructive_hint=False)
_TOOLS: Final = (
    Tool(name="create_note", description="Store a note.", input_schema=_ONE_TEXT, annotations=_ADDING),
    Tool(
        name="search",
        description="Find the notes that contain a text.",
        input_schema=_ONE_TEXT,
        annotations=_READ_ONLY,
    ),
    Tool(name="list_notes", description="List all notes.", input_schema=_NOTHING, annotations=_READ_ONLY),
)


class Notes:
    """Notes in memory, in the order in which they were written."""

    def __init__(self) -> None:
        self._notes: list[str] = []

    def create_note(self, text: str) -> str:
        """Stores a note, and returns its number. Raises ValueError if there are too many notes."""
        if len(text) > _MAX_CHARS:
            raise ValueError(f"a note may have {_MAX_CHARS} characters")
        if len(self._notes) >= _MAX_NOTES:
            raise ValueError(f"there are {_MAX_NOTES} notes already")
        self._notes.append(text)
        return f"note {len(self._notes)}"

    def find_notes(self, text: str) -> str:
        """Returns the notes that contain a text, in any case, one per line."""
        matches = [note for note in self._notes if text.casefold() in note.casefold()]
        return "\n".join(matches) or "no note"

    def list_notes(self) -> str:
        """Returns all notes, one per line."""
        return "\n".join(self._notes) or "no note"


def build_notes_server() -> Server[Any]:
    """Returns a server without notes."""
    notes = Notes()
    actions: dict[str, Callable[..., str]] = {
        "create_note": notes.create_note,
        "search": notes.find_notes,
        "list_notes": notes.list_notes,
    }

    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[*_TOOLS])

    async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult:
        try:
            text = actions[params.name](**(params.arguments or {}))
        except KeyError:
            return _fail(f"there is no tool {params.name}")
        except TypeError:
            return _fail("the arguments do not fit the tool's schema")
        except ValueError as error:
            return _fail(str(error))
        return CallToolResult(content=[TextContent(type="text", text=text)])

    return Server("notes", on_list_tools=list_tools, on_call_tool=call_tool)


def _fail(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)
