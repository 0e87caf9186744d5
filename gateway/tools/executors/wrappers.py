"""Wrappers of executors. Each changes one thing, and they can be nested in any order."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.tools.executors.executor import Allows, CacheKey, ListedTools, OnProgress, ToolExecutor, ToolSource
from gateway.tools.redacted_results import ResultRedactor
from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.tools import HostedTool
from translation.representation.json_types import Json

_NO_STORE = "its calls need an approval, which needs a store"


class WrapperExecutor:
    """An executor that does what another one does. Wrappers override what they change."""

    def __init__(self, inner: ToolExecutor) -> None:
        self._inner = inner

    @property
    def source(self) -> ToolSource:
        return self._inner.source

    @property
    def cache_key(self) -> CacheKey:
        return self._inner.cache_key

    def list_secrets(self) -> Sequence[str]:
        return self._inner.list_secrets()

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        return self._inner.find_known_tools(allows)

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        return await self._inner.list_tools(allows, must_be_fresh=must_be_fresh)

    def keep_list(self) -> None:
        self._inner.keep_list()

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        return self._inner.build_tools(definitions)

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        return await self._inner.run(call, deadline_s, on_progress)

    async def close(self) -> None:
        await self._inner.close()


class FilteredExecutor(WrapperExecutor):
    """Has only the tools that `allows` accepts. `rule` is the filter as JSON."""

    def __init__(self, inner: ToolExecutor, allows: Allows, rule: Json) -> None:
        super().__init__(inner)
        self._allows = allows
        self._rule = rule

    @property
    def cache_key(self) -> CacheKey:
        return _add_rule(self._inner.cache_key, self._rule)

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        return self._inner.find_known_tools(self._filter_list(allows))

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        return await self._inner.list_tools(self._filter_list(allows), must_be_fresh=must_be_fresh)

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        return [tool for tool in self._inner.build_tools(definitions) if self._allows(tool.key.name, tool.is_read_only)]

    def _filter_list(self, allows: Allows) -> Allows:
        return lambda name, is_read_only: self._allows(name, is_read_only) and allows(name, is_read_only)


class PrefixedExecutor(WrapperExecutor):
    """Has tools whose names for the model begin with `prefix`; None stands for the label, an empty text for none."""

    def __init__(self, inner: ToolExecutor, prefix: str | None) -> None:
        super().__init__(inner)
        self._prefix = prefix

    @property
    def cache_key(self) -> CacheKey:
        return _add_rule(self._inner.cache_key, {"prefix": self._prefix})

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        return [replace(tool, prefix=self._prefix) for tool in self._inner.build_tools(definitions)]


class ApprovalRequiredExecutor(WrapperExecutor):
    """Has tools whose calls need an approval where `needs_approval` says so. `rule` is that rule as JSON.

    If the client cannot be asked (`can_ask`), these tools are left out of new lists.
    """

    def __init__(
        self, inner: ToolExecutor, needs_approval: Callable[[str, bool], bool], rule: Json, *, can_ask: bool
    ) -> None:
        super().__init__(inner)
        self._needs_approval = needs_approval
        self._rule = rule
        self._can_ask = can_ask

    @property
    def cache_key(self) -> CacheKey:
        return _add_rule(self._inner.cache_key, self._rule)

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        listed = self._inner.find_known_tools(allows)
        return None if listed is None else self._drop_unusable(listed)

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        return self._drop_unusable(await self._inner.list_tools(allows, must_be_fresh=must_be_fresh))

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        return [
            replace(tool, needs_approval=self._needs_approval(tool.key.name, tool.is_read_only))
            for tool in self._inner.build_tools(definitions)
        ]

    def _drop_unusable(self, listed: ListedTools) -> ListedTools:
        if self._can_ask:
            return listed
        usable = [each for each in listed.definitions if not self._requires_approval(each)]
        unusable = {each["name"]: _NO_STORE for each in listed.definitions if self._requires_approval(each)}
        return ListedTools(usable, {**listed.left_out, **unusable})

    def _requires_approval(self, definition: Json) -> bool:
        return self._needs_approval(definition["name"], definition["annotations"]["read_only"])


class RedactedExecutor(WrapperExecutor):
    """Has lists and outcomes without the credentials that `redactor` knows."""

    def __init__(self, inner: ToolExecutor, redactor: ResultRedactor) -> None:
        super().__init__(inner)
        self._redactor = redactor

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        # Any other list is requested from `list_tools`, which can redact a long one while other requests run.
        return self._inner.find_known_tools(allows) if self.source.has_clean_lists else None

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        listed = await self._inner.list_tools(allows, must_be_fresh=must_be_fresh)
        if self.source.has_clean_lists:
            return listed
        return listed._replace(definitions=await self._redactor.redact_json([*listed.definitions]))

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        self._redactor.record_tokens()  # they may be replaced during the call
        return await self._redactor.redact_outcome(await self._inner.run(call, deadline_s, on_progress))


class KnownListExecutor(WrapperExecutor):
    """Has the list that it was given, and asks for another one only if that must be fresh."""

    def __init__(self, inner: ToolExecutor, known: ListedTools) -> None:
        super().__init__(inner)
        self._known = known

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        return self._known

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        return await self._inner.list_tools(allows, must_be_fresh=True) if must_be_fresh else self._known


def _add_rule(key: CacheKey, rule: Json) -> CacheKey:
    return CacheKey([*key.rules, rule], key.objects)
