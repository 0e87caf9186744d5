"""Builds the parts that streamed and whole replies share: parts, usage, citations, the reason of the end."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from translation.decoding.usage import read_token_logprobs
from translation.exact_numbers import parse_tool_data
from translation.representation.events import Finished, FinishReason, Usage
from translation.representation.items import read_span, text_of
from translation.representation.json_types import Item, Json, mapping_or_empty
from translation.representation.loss import render_reply_losses
from translation.tools.arguments import find_arguments_fault
from translation.tools.searches import build_input, build_results, is_counted

PARAGRAPH: Final = "\n\n"

MALFORMED_CALL: Final = "MALFORMED_FUNCTION_CALL"

_FINISH_REASONS: Final[Mapping[FinishReason, str]] = {
    "stop": "STOP",
    "other": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
}

_OWN_REASONS: Final = frozenset(
    {
        "BLOCKLIST",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_SAFETY",
        "PROHIBITED_CONTENT",
        "RECITATION",
        "SPII",
    }
)
"""Reasons of an upstream of the same API that say more than a Finished event."""

_MAX_ARGS_BYTES: Final = 2**31
"""Arguments of any length are an object in a reply."""


@dataclass(frozen=True, slots=True)
class ReplyHead:
    """The members of every chunk of a reply. `create_time` is a time as in RFC 3339."""

    response_id: str
    model: str
    create_time: str

    def build(self) -> Json:
        """Returns the fields of a reply beside its candidates."""
        return {"modelVersion": self.model, "responseId": self.response_id, "createTime": self.create_time}


def shows_thoughts(body: Json) -> bool:
    """Whether the client of a request requests thoughts."""
    config = mapping_or_empty(mapping_or_empty(body.get("generationConfig")).get("thinkingConfig"))
    return bool(config.get("includeThoughts"))


def wants_logprobs(body: Json) -> bool:
    """Whether the client of a request requests log probabilities."""
    config = mapping_or_empty(body.get("generationConfig"))
    return bool(config.get("responseLogprobs") or config.get("logprobs"))


def build_candidate(parts: Sequence[Json], **more: Any) -> Json:
    return {"content": {"parts": [*parts], "role": "model"}, "index": 0, **more}


def build_function_call(item: Item) -> tuple[Json | None, str | None]:
    """Returns the `functionCall` of a complete call, or the reason why there is none, if its arguments are not an
    object."""
    arguments = item.get("arguments") or ""
    if (fault := find_arguments_fault(arguments, _MAX_ARGS_BYTES)) is not None:
        return None, f"The model's call of {item['name']!r:.100} is left out: {fault}."
    return {
        "id": item["call_id"],
        "name": item["name"],
        "args": parse_tool_data(arguments) if arguments.strip() else {},
    }, None


def build_image(item: Item) -> Json | None:
    """Returns the part for an image that the upstream has made; None for any other item."""
    if item["type"] != "image_generation_call" or not item.get("result"):
        return None
    return {"inlineData": {"mimeType": f"image/{item.get('output_format') or 'png'}", "data": item["result"]}}


def build_usage_metadata(counts: Usage | None) -> Json:
    """Returns the `usageMetadata`, with the counts that are known.

    The API counts thoughts apart from the answer, and the input of tools apart from the prompt.
    """
    counts = counts or Usage()
    raw_tools = (counts.raw or {}).get("toolUsePromptTokenCount")
    tools = raw_tools if isinstance(raw_tools, int) and 0 < raw_tools <= (counts.input or 0) else None
    usage: Json = {
        "promptTokenCount": None if counts.input is None else counts.input - (tools or 0),
        "candidatesTokenCount": None if counts.output is None else counts.output - (counts.reasoning or 0),
        "thoughtsTokenCount": counts.reasoning or None,
        "cachedContentTokenCount": counts.cache_read or None,
        "toolUsePromptTokenCount": tools,
    }
    if counts.input is not None and counts.output is not None:
        usage["totalTokenCount"] = counts.input + counts.output
    return {key: value for key, value in usage.items() if value is not None}


def build_end(finished: Finished, fault: str | None) -> Json:
    """Returns `finishReason` and `finishMessage` of a candidate. `fault` describes an invalid call."""
    if fault is not None and finished.reason not in ("length", "content_filter"):
        return {"finishReason": MALFORMED_CALL, "finishMessage": fault}
    is_own = finished.raw_reason in _OWN_REASONS
    end = {"finishReason": finished.raw_reason if is_own else _FINISH_REASONS[finished.reason]}
    remarks = [] if finished.explanation is None else [finished.explanation]
    if (unknown := finished.unknown_reason) is not None:
        remarks.append(f"The upstream's finish reason is not known: {unknown}")
    if finished.lacks:
        remarks.append(f"Losses of this reply: {', '.join(render_reply_losses(finished.lacks))}")
    return {**end, "finishMessage": ". ".join(remarks)} if remarks else end


class Grounding:
    """Collects the searches of a reply, and the citations of its texts, as `groundingMetadata`."""

    def __init__(self) -> None:
        self._queries: list[str] = []
        self._sources: list[Json] = []
        self._source_numbers: dict[str, int] = {}
        """URL -> the index of its page in `_sources`."""
        self._supports: list[Json] = []

    def add_search(self, item: Item) -> None:
        """Adds the queries and the pages of a search that succeeded."""
        if not is_counted(item):
            return
        tool_input = build_input(item)
        self._queries += filter(None, tool_input.get("queries") or [tool_input["query"]])
        pages = build_results(item)
        for page in pages if isinstance(pages, list) else ():
            self._add_source(page["url"], page["title"])

    def _add_source(self, url: str, title: str) -> int:
        number = self._source_numbers.setdefault(url, len(self._sources))
        if number == len(self._sources):
            self._sources.append({"web": {"uri": url, "title": title}})
        web = self._sources[number]["web"]
        if web["title"] == url:
            web["title"] = title
        return number

    def cite(self, annotation: Any, text: str, before: str) -> None:
        """Adds an annotation of a text. `before` is the answer before that text. Only URLs can be cited."""
        match annotation:
            case {"type": "url_citation", "url": str(url)}:
                number = self._add_source(url, annotation.get("title") or url)
                start, end = read_span(annotation)
                offset = len(before.encode())
                segment = {
                    "startIndex": offset + len(text[:start].encode()),
                    "endIndex": offset + len(text[:end].encode()),
                    "text": text[start:end],
                }
                self._supports.append({"segment": segment, "groundingChunkIndices": [number]})

    def build(self) -> Json:
        """Returns the candidate's field with the searches and citations; empty if there are none."""
        metadata = {
            "webSearchQueries": self._queries,
            "groundingChunks": self._sources,
            "groundingSupports": self._supports,
        }
        metadata = {key: value for key, value in metadata.items() if value}
        return {"groundingMetadata": metadata} if metadata else {}


def build_logprobs(entries: Iterable[Json]) -> Json:
    """Returns the candidate's field with the log probabilities of its tokens; empty if there are none."""
    tokens = read_token_logprobs([*entries])
    if tokens is None:
        return {}
    return {
        "logprobsResult": {
            "chosenCandidates": [_logprob(entry) for entry in tokens],
            "topCandidates": [{"candidates": [_logprob(top) for top in entry["top_logprobs"]]} for entry in tokens],
        }
    }


def _logprob(entry: Json) -> Json:
    return {"token": entry["token"], "logProbability": entry["logprob"]}


def read_thought(item: Item) -> str:
    """Returns the readable text of a whole reasoning item."""
    parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
    return PARAGRAPH.join(filter(None, (text_of("reasoning", part) for part in parts)))
