"""Collects the events of one turn into a whole reply. Does not know the upstream's dialect."""

from translation.encoding.turn_reply import TurnReplyCollector
from translation.gemini.client import reply_objects
from translation.gemini.client.reply_objects import Grounding, ReplyHead
from translation.gemini.client.signatures import Signature, pack_signature
from translation.gemini.client.value_replies import ValueForm, unwrap_value
from translation.representation.events import Finished
from translation.representation.item_seal import ItemSeal, seal_item
from translation.representation.items import text_of
from translation.representation.json_types import Item, Json


class ContentCollector(TurnReplyCollector):
    """Collects one turn into a whole reply. With `thoughts` it has the texts of reasoning items.

    With `enum` the answer is only the value in it. `seal` seals the data of items that the client has to send back.
    """

    def __init__(
        self, head: ReplyHead, *, thoughts: bool, value_form: ValueForm | None = None, seal: ItemSeal | None = None
    ) -> None:
        super().__init__()
        self._head = head
        self._value_form = value_form
        self._thoughts = thoughts
        self._seal = seal

    def _build_reply(self, finished: Finished, /) -> Json:
        parts = _Parts(self._seal, thoughts=self._thoughts, value_form=self._value_form)
        for item in self._collector.items:
            parts.add(item)
        candidate = reply_objects.build_candidate(
            parts.finish(), **reply_objects.build_end(finished, parts.fault), **parts.grounding.build()
        )
        return {
            "candidates": [candidate | reply_objects.build_logprobs(parts.logprobs)],
            "usageMetadata": reply_objects.build_usage_metadata(self.usage),
            **self._head.build(),
        }


class _Parts:
    """The parts of a reply, built from its items."""

    def __init__(self, seal: ItemSeal | None, *, thoughts: bool, value_form: ValueForm | None) -> None:
        self.grounding = Grounding()
        self.logprobs: list[Json] = []
        self.fault: str | None = None
        """The fault of a call that is left out."""
        self._seal = seal
        self._thoughts = thoughts
        self._value_form = value_form
        self._parts: list[Json] = []
        self._answer = ""
        self._sealed_thoughts: list[str] = []

    def add(self, item: Item) -> None:
        sealed = seal_item(item, self._seal)
        match item["type"]:
            case "message":
                for part in item.get("content") or ():
                    self._add_text(text_of("message", part), part)
            case "reasoning":
                if self._thoughts and (text := reply_objects.read_thought(item)):
                    self._parts.append({"text": text, "thought": True})
                self._sealed_thoughts += [sealed] if sealed else []
            case "function_call":
                call, fault = reply_objects.build_function_call(item)
                self.fault = self.fault or fault
                if call is not None:
                    self._sign({"functionCall": call}, sealed or None)
            case "web_search_call":
                self.grounding.add_search(item)
            case _:
                if (image := reply_objects.build_image(item)) is not None:
                    self._sign(image)

    def finish(self) -> list[Json]:
        """Returns all parts. There is at least one: clients keep no reply without."""
        if self._sealed_thoughts or not self._parts:
            self._sign({"text": ""})
        return self._parts

    def _add_text(self, text: str, part: Json) -> None:
        if text:
            for annotation in part.get("annotations") or ():
                self.grounding.cite(annotation, text, self._answer)
            self._answer += text
            self.logprobs += part.get("logprobs") or ()
            self._sign({"text": unwrap_value(text, self._value_form) if self._value_form else text})

    def _sign(self, part: Json, call: str | None = None) -> None:
        signature = pack_signature(Signature(self._sealed_thoughts, call))
        self._sealed_thoughts = []
        last = self._parts[-1] if self._parts else {}
        if signature is not None:
            self._parts.append({**part, "thoughtSignature": signature})
        elif "text" in part and "text" in last and not last.get("thought"):
            last["text"] += part["text"]  # one part per answer: it equals the joined pieces of a stream
        else:
            self._parts.append(part)
