"""Items as Gemini's contents: what Responses keeps apart, one content per voice holds as its parts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini import details
from translation.gemini.families import Family
from translation.gemini.parts import lower_parts
from translation.gemini.results import result_of
from translation.lowering.past_reasoning import is_mark, text_of
from translation.lowering.text_parts import texts_of_parts
from translation.lowering.unsupported import unsaid_of_messages
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.tools.arguments import arguments_object
from translation.tools.call_pairs import Pairs

_PLACEHOLDER: Final = "skip_thought_signature_validator"
"""For calls that were not made by this family, or whose signature is lost.
https://ai.google.dev/gemini-api/docs/thought-signatures#faqs"""

_OPENING: Final = "(The conversation begins with the assistant's words.)"
"""What a user says first where nobody else does."""


def lower_items(items: Sequence[Item], profile: Profile, family: Family, losses: list[Loss]) -> tuple[str, list[Json]]:
    """What the leading system messages say, and the contents.

    Calls, and the thoughts and text before them, are one content of the model; what they returned follows it directly.
    Raises InvalidRequest naming the id for a call without its output or an output without its call, and Unrepresentable
    for an item Gemini has no word for.
    """
    writer = _Contents(items, profile, family, losses)
    for index, item in enumerate(items):
        kind = item.get("type", "")
        write = _ITEMS.get(kind)
        if write is None:
            raise _unknown(kind, f"input[{index}]")
        write(writer, index, item)
    writer.settle()
    losses += unsaid_of_messages(items)
    return "\n\n".join(writer.system), writer.contents


def begun_by_user(contents: list[Json], losses: list[Loss]) -> list[Json]:
    """The contents with a user's before the first, which the API wants in front of calls."""
    if not contents or contents[0]["role"] == "user":
        return contents
    losses.append(Loss("input", "begun with a user message"))
    return [{"role": "user", "parts": [{"text": _OPENING}]}, *contents]


class _Contents:
    def __init__(self, items: Sequence[Item], profile: Profile, family: Family, losses: list[Loss]) -> None:
        self.system: list[str] = []
        self.contents: list[Json] = []
        self._items = items
        self._profile = profile
        self._losses = losses
        self._pairs = Pairs(items)
        wanted = profile.call_signatures
        self._wants_signatures = family.signed_calls if wanted == "by_model" else wanted == "placeholder"
        self._calls: list[int] = []
        """Items that are calls of the open content and wait for their outputs."""
        self._said: list[Json] = []
        """Parts of the model's open content."""
        self._thoughts: list[Json] = []
        """Thought parts that wait for what they led to."""
        self._call_signatures: dict[str, str] = {}
        self._text_signatures: list[Json] = []
        """Details of texts that are yet to come."""

    def message(self, index: int, item: Item) -> None:
        role, param, parts = item["role"], f"input[{index}].content", item["content"]
        if role == "assistant":
            if any(part.get("type") == "refusal" for part in parts):
                self._losses.append(Loss("input", "refusal as text"))
            return self._say_text("".join(texts_of_parts(parts, param)))
        self.settle()
        if role == "developer" and self._profile.developer_role == "user":
            role = "user"
        if role == "user":
            if said := lower_parts(parts, param, self._losses):
                self._add("user", said)
        else:
            self._add_system("\n".join(texts_of_parts(parts, param)))
        return None

    def reasoning(self, _index: int, item: Item) -> None:
        ours = list(details.ours(item))
        text = text_of(item)
        replay = self._profile.replay_reasoning
        signed = [detail for detail in ours if detail["type"] == details.THOUGHT]
        if signed or (text and replay not in ("none", "think_tags")):
            # What is signed goes back as it came, whatever the profile says.
            signatures = [_signature(detail) for detail in signed] or [{}]
            texts = [text, *("" for _ in signatures[1:])]
            self._thoughts += [
                {"text": said, "thought": True} | each for said, each in zip(texts, signatures, strict=True)
            ]
        elif text and replay == "think_tags":
            self._thoughts.append({"text": f"<think>\n{text}\n</think>\n\n"})
        elif not ours and not is_mark(item):
            # Beside a signature nothing is lost: it holds the thought. Without a word it was for another model to read.
            self._losses.append(Loss("input", "reasoning dropped"))
        for detail in ours:
            if detail["type"] == details.CALL:
                self._call_signatures[detail["call_id"]] = detail["signature"]
            elif detail["type"] == details.TEXT:
                self._sign_text(detail)

    def call(self, index: int, item: Item) -> None:
        name, call_id = item["name"], item["call_id"]
        arguments = arguments_object(
            item["arguments"], f"input[{index}].arguments", self._losses, max_bytes=self._profile.max_tool_args_bytes
        )
        said = {"id": call_id, "name": name, "args": arguments}
        signature = self._call_signatures.pop(call_id, None)
        if signature is None and self._wants_signatures and not self._calls:
            signature = _PLACEHOLDER
        self._say({"functionCall": said} | ({"thoughtSignature": signature} if signature else {}))
        self._calls.append(index)

    def output(self, index: int, _item: Item) -> None:
        self.settle()
        self._pairs.check(index)

    def search(self, _index: int, _item: Item) -> None:
        """Dropped on purpose: the upstream takes no record of its searches; what they found is in the text."""
        self._losses.append(Loss("input", "web_search_call dropped"))

    def settle(self) -> None:
        """The model's turn is over: answer its calls before anything else is said."""
        for detail in self._text_signatures:
            if self._said:
                self._said.append({"text": ""} | _signature(detail))
        self._text_signatures = []
        if self._thoughts:
            self._losses.append(Loss("input", "reasoning dropped"))
            self._thoughts = []
        if self._said:
            self._add("model", self._said)
        if self._calls:
            self.contents.append({"role": "user", "parts": self._results()})
        self._said, self._calls = [], []

    def _add(self, role: str, parts: list[Json]) -> None:
        """Say parts in a role, in the content before if that has the same: some models go by the number of a content.
        What a user says beside the results of calls gets no answer, so it is set apart from them."""
        last = self.contents[-1] if self.contents else {}
        if last.get("role") == role and not any("functionResponse" in part for part in last["parts"]):
            last["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _results(self) -> list[Json]:
        results: list[Json] = []
        beside: list[Json] = []
        for answer, call in sorted((self._pairs.output_of(call), call) for call in self._calls):
            item = self._items[answer]
            result, media = result_of(item, f"input[{answer}].output", self._losses)
            said: Json = {"id": item["call_id"], "name": self._items[call]["name"], "response": result}
            if media and self._profile.media_in_tool_messages:
                said["parts"] = media
            elif media:
                beside += [{"text": f"Media from the output of {said['name']} ({item['call_id']}):"}, *media]
                self._losses.append(Loss("input", "tool media beside the output"))
            results.append({"functionResponse": said})
        return [*results, *beside]

    def _say(self, part: Json) -> None:
        self._said += [*self._thoughts, part]
        self._thoughts = []

    def _say_text(self, text: str) -> None:
        signed, self._text_signatures = self._text_signatures, []
        if not text:
            self._text_signatures = signed
            return
        self._say({"text": text})
        for detail in signed:
            self._sign_text(detail)

    def _sign_text(self, detail: Json) -> None:
        """Sign the text that was said last; without one, the detail waits for it."""
        last = self._said[-1] if self._said else {}
        if "text" not in last or last.get("thought"):
            self._text_signatures.append(detail)
        elif detail.get("empty") or "thoughtSignature" in last:
            self._said.append({"text": ""} | _signature(detail))
        else:
            last |= _signature(detail)

    def _add_system(self, text: str) -> None:
        if not self.contents:
            self.system.append(text)
        elif self._profile.system_messages == "merge_all":
            self.system.append(text)
            self._losses.append(Loss("input", "system messages merged"))
        else:
            self._add("user", [{"text": text}])
            self._losses.append(Loss("input", "system message as user message"))


def _signature(detail: Json) -> Json:
    return {"thoughtSignature": detail["signature"]}


def _unknown(kind: str, param: str) -> InvalidRequest:
    if kind == "item_reference":
        return InvalidRequest("Items are not stored here: send the item itself, not a reference.", param=param)
    return Unrepresentable(f"this model's API has no items of type {kind!r}", param=param)


_ITEMS: Final[Mapping[str, Callable[[_Contents, int, Item], None]]] = {
    "message": _Contents.message,
    "reasoning": _Contents.reasoning,
    "function_call": _Contents.call,
    "function_call_output": _Contents.output,
    "web_search_call": _Contents.search,
}
"""Item type -> how it is said. What is not listed is refused by name."""
