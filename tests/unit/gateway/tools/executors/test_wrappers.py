"""Wrappers of executors: each changes one thing, and nested ones change what each of them does."""

from collections.abc import Sequence
from typing import Final

from gateway.tools.executors.executor import Allows, CacheKey, ListedTools, OnProgress, ToolSource
from gateway.tools.executors.wrappers import (
    ApprovalRequiredExecutor,
    FilteredExecutor,
    KnownListExecutor,
    PrefixedExecutor,
    RedactedExecutor,
)
from gateway.tools.redacted_results import ResultRedactor
from tests.tool_rounds import hosted_tool
from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.tools import HostedTool, ToolCatalogue, ToolKey
from translation.representation.json_types import Json

SECRET: Final = "a-secret-of-the-request"


def allow_all(_name: str, _is_read_only: bool) -> bool:
    return True


class ListExecutor:
    """Lists `read` and `write`, and counts how often it is asked."""

    source = ToolSource(label="files")
    cache_key = CacheKey([{"label": "files"}])

    def __init__(self) -> None:
        self.lists = 0

    def list_secrets(self) -> Sequence[str]:
        return ()

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        return None

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        self.lists += 1
        names = [name for name in ("read", "write") if allows(name, name == "read")]
        return ListedTools([define(name) for name in names], {"odd": f"it quotes {SECRET}"})

    def keep_list(self) -> None: ...

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        return [
            hosted_tool(each["name"], "files", is_read_only=each["annotations"]["read_only"]) for each in definitions
        ]

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        return ToolOutcome(output=f"the token is {SECRET}")

    async def close(self) -> None: ...


def define(name: str) -> Json:
    return {"name": name, "description": SECRET, "input_schema": {}, "annotations": {"read_only": name == "read"}}


async def test_a_filter_narrows_lists_and_what_is_built_from_a_list_of_the_input() -> None:
    executor = FilteredExecutor(ListExecutor(), lambda _name, is_read_only: is_read_only, {"read_only": True})
    assert [each["name"] for each in (await executor.list_tools(allow_all)).definitions] == ["read"]
    assert [tool.key.name for tool in executor.build_tools([define("read"), define("write")])] == ["read"]
    assert executor.cache_key.rules == [{"label": "files"}, {"read_only": True}]


async def test_filters_can_be_nested() -> None:
    inner = FilteredExecutor(ListExecutor(), lambda name, _: name != "read", {})
    executor = FilteredExecutor(inner, lambda name, _: name != "write", {})
    assert (await executor.list_tools(allow_all)).definitions == []
    assert executor.build_tools([define("read"), define("write")]) == []


def test_a_prefix_names_tools_for_the_model() -> None:
    definitions = [define("read")]
    names = [
        [*ToolCatalogue.build(PrefixedExecutor(ListExecutor(), prefix).build_tools(definitions)).tools]
        for prefix in (None, "", "disk")
    ]
    assert names == [["files_read"], ["read"], ["disk_read"]]


async def test_tools_that_need_an_approval_are_left_out_of_lists_if_nobody_can_be_asked() -> None:
    for can_ask, names in ((True, ["read", "write"]), (False, ["read"])):
        executor = ApprovalRequiredExecutor(
            ListExecutor(), lambda _name, is_read_only: not is_read_only, {}, can_ask=can_ask
        )
        listed = await executor.list_tools(allow_all)
        assert [each["name"] for each in listed.definitions] == names
        assert ("write" in listed.left_out) is not can_ask
        needs = {tool.key: tool.needs_approval for tool in executor.build_tools([define("read"), define("write")])}
        assert needs == {ToolKey("files", "read"): False, ToolKey("files", "write"): True}


async def test_credentials_are_removed_from_lists_and_outcomes() -> None:
    executor = RedactedExecutor(ListExecutor(), ResultRedactor([SECRET], list))
    listed = await executor.list_tools(allow_all)
    assert [each["description"] for each in listed.definitions] == ["[hidden]", "[hidden]"]
    call = HostedCall(item_id="mcp_1", call_id="c", key=ToolKey("files", "read"), model_name="r", tool=None, index=0)
    assert (await executor.run(call, 1)).output == "the token is [hidden]"


class CleanListExecutor(ListExecutor):
    """Has lists without credentials."""

    source = ToolSource(label="files", has_clean_lists=True)


async def test_a_known_list_that_may_have_credentials_is_used_only_after_it_is_redacted() -> None:
    known, redactor = ListedTools([define("read")]), ResultRedactor([SECRET], list)
    executor = RedactedExecutor(KnownListExecutor(ListExecutor(), known), redactor)
    assert executor.find_known_tools(allow_all) is None
    assert [each["description"] for each in (await executor.list_tools(allow_all)).definitions] == ["[hidden]"]
    clean = RedactedExecutor(KnownListExecutor(CleanListExecutor(), known), redactor)
    assert clean.find_known_tools(allow_all) is known


async def test_a_known_list_is_asked_for_only_if_it_must_be_fresh() -> None:
    inner, known = ListExecutor(), ListedTools([define("read")])
    executor = KnownListExecutor(inner, known)
    assert executor.find_known_tools(allow_all) is known
    assert await executor.list_tools(allow_all) is known
    assert inner.lists == 0
    assert len((await executor.list_tools(allow_all, must_be_fresh=True)).definitions) == 2
    assert inner.lists == 1


def test_a_text_about_tools_that_were_left_out_names_twenty_of_them() -> None:
    assert ListedTools([]).describe_left_out() is None
    text = ListedTools([], {f"tool_{number}": "it is odd" for number in range(25)}).describe_left_out()
    assert text is not None
    assert text.startswith("tools left out: tool_0: it is odd; tool_1")
    assert text.endswith("tool_19: it is odd; and 5 more")
