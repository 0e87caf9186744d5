"""Collects the events of one turn into a whole reply. Does not know the upstream's dialect."""

from collections.abc import Iterator, Sequence

from translation.encoding.turn_reply import TurnReplyCollector
from translation.ollama.client.reply_lines import PARAGRAPH_BREAK, LineHead, build_whole_call, is_cut
from translation.representation.events import Finished
from translation.representation.items import text_of
from translation.representation.json_types import Item, Json


class OllamaCollector(TurnReplyCollector):
    """Collects one turn into the one object that is the reply without `stream`."""

    def __init__(self, head: LineHead) -> None:
        super().__init__()
        self._head = head
        self._started_ns = head.clock_ns()

    def _build_reply(self, finished: Finished, /) -> Json:
        items = self._collector.items
        thoughts = [text for item in items if item["type"] == "reasoning" for text in _texts_of(item)]
        calls = [item for item in items if item["type"] == "function_call" and not is_cut(item)]
        line = self._head.build_line(
            PARAGRAPH_BREAK.join(
                filter(None, ["".join(_texts_of(item)) for item in items if item["type"] == "message"])
            ),
            thinking=PARAGRAPH_BREAK.join(thoughts) if self._head.shows_thinking else "",
            calls=[build_whole_call(item, number) for number, item in enumerate(calls)],
            logprobs=_collect_logprobs(items) if self._head.wants_logprobs else (),
        )
        return self._head.end_line(line, finished, self.usage, self._started_ns)


def _texts_of(item: Item) -> Iterator[str]:
    for part in [*(item.get("summary") or ()), *(item.get("content") or ())]:
        if text := text_of(item["type"], part):
            yield text


def _collect_logprobs(items: Sequence[Item]) -> list[Json]:
    messages = [item for item in items if item["type"] == "message"]
    return [entry for item in messages for part in item.get("content") or () for entry in part.get("logprobs") or ()]
