"""Searches the tools of one response by their names, descriptions and parameters."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import orjson

from dataplane.sharing.work_pool import run_in_pool
from gateway.retrieval.scoring import Corpus, QueryScorer
from gateway.retrieval.terms import find_query_terms, iterate_index_terms
from gateway.tools.executors.executor import Allows, CacheKey, ListedTools, OnProgress, ToolSource
from translation.hosted.calls import HostedCall
from translation.hosted.outcomes import ToolOutcome
from translation.hosted.tool_search.deferred_tools import DeferredTool, DeferredTools
from translation.hosted.tool_search.search_form import SEARCH_FORM, write_loaded
from translation.hosted.tools import HostedTool, ToolKey
from translation.lowering.client_search import TOOL_SEARCH
from translation.representation.json_types import Json

_MAX_QUERY_CHARS: Final = 1000
_MANY: Final = 200
"""More tools are ranked in a thread."""

_WORDS_OF_NAME: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_./-]+")

_DEFINITION: Final[Json] = {
    "name": TOOL_SEARCH,
    "description": "Finds tools for a task, and loads the best of them. There are more tools than you can see: search "
    "before you say that you cannot do something. The tools that were loaded can be called in the next step.",
    "input_schema": {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What the tool should do, in a few words."}},
        "required": ["query"],
    },
    "annotations": {"read_only": True},
}


class ToolSearchExecutor:
    """The search for tools of one response. `label` says whether the request asked for it."""

    def __init__(self, label: str, results: int, deferred: DeferredTools) -> None:
        self.source: Final = ToolSource(label=label, shows_list=False, has_clean_lists=True)
        self.cache_key: Final = CacheKey([{"label": label}])
        self._results = results
        self._deferred = deferred

    def list_secrets(self) -> Sequence[str]:
        return ()

    def find_known_tools(self, allows: Allows) -> ListedTools | None:
        return ListedTools([_DEFINITION])

    async def list_tools(self, allows: Allows, *, must_be_fresh: bool = False) -> ListedTools:
        return ListedTools([_DEFINITION])

    def keep_list(self) -> None:
        """Does nothing: the tool is always the same."""

    def build_tools(self, definitions: Sequence[Json]) -> list[HostedTool]:
        return [
            HostedTool(
                key=ToolKey(self.source.label, each["name"]),
                parameters=each["input_schema"],
                description=each["description"],
                is_read_only=True,
                needs_approval=False,
                prefix="",
                form=SEARCH_FORM,
                choice_type=TOOL_SEARCH,
                is_repeatable=True,
            )
            for each in definitions
        ]

    async def run(self, call: HostedCall, deadline_s: float, on_progress: OnProgress | None = None) -> ToolOutcome:
        query = str(orjson.loads(call.arguments)["query"])[:_MAX_QUERY_CHARS]
        tools = self._deferred.tools
        if len(tools) > _MANY:
            names = await run_in_pool(rank_tools, query, tools, self._results)
        else:
            names = rank_tools(query, tools, self._results)
        return ToolOutcome(output=write_loaded(names))

    async def close(self) -> None:
        """Does nothing: nothing was opened."""


def rank_tools(query: str, tools: Sequence[DeferredTool], count: int) -> list[str]:
    """Returns the names of the tools that cover most of a query, the best first, at most `count`."""
    wanted = find_query_terms(_split_words(query))
    terms = [[*iterate_index_terms(_split_words(tool.text))] for tool in tools]
    frequencies = Counter(term for each in terms for term in {*each}.intersection(wanted))
    corpus = Corpus(len(tools), sum(map(len, terms)))
    scorer = QueryScorer(corpus, {term: frequencies[term] for term in wanted})
    scores = [(scorer.score(each), -place) for place, each in enumerate(terms)]
    return [tools[-place].name for score, place in sorted(scores, reverse=True)[:count] if score > 0]


def _split_words(text: str) -> str:
    """Returns a text in which the words of names are apart: `getUser_byId` becomes `get User by Id`."""
    return _WORDS_OF_NAME.sub(" ", text)
