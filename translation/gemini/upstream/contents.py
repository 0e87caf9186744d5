"""Lowers items to Gemini's contents. Consecutive items of one role become the parts of one content."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from translation.gemini.upstream import details
from translation.gemini.upstream.families import GeminiFamily
from translation.gemini.upstream.parts import lower_parts
from translation.lowering.reasoning import is_signature_only, render_past_reasoning
from translation.lowering.turn_writer import OPENING_USER_TEXT, TurnWriter, WriteItem
from translation.lowering.unsupported import UNSUCCESSFUL_STATUSES
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.tools.arguments import parse_past_arguments
from translation.tools.searches import SEARCH_ITEM

_IMAGE_ITEM: Final = "image_generation_call"

_PLACEHOLDER_SIGNATURE: Final = "skip_thought_signature_validator"
"""The signature for calls and images that another family made, or whose signature is lost.
https://ai.google.dev/gemini-api/docs/thought-signatures#faqs"""


def lower_items(turn: Turn, profile: Profile, family: GeminiFamily, losses: list[Loss]) -> tuple[str, list[Json]]:
    """Returns the system text and the contents for these items. Losses are appended to `losses`.

    Calls, and the thoughts and text before them, become one content of the model. The results of the calls follow it
    directly. Raises InvalidRequest, naming the id, for a call without its output or an output without its call, and for
    a last message that is not sent, and Unrepresentable for an item type that Gemini does not have.
    """
    writer = _ContentsWriter(turn, profile, family, losses)
    writer.write_items()
    if writer.contents and writer.contents[-1]["role"] == "model":
        writer.check_end()
    return "\n\n".join(writer.system), writer.contents


def ensure_user_first(contents: list[Json], losses: list[Loss]) -> list[Json]:
    """Returns the contents with a user's content first, which the API requires before calls."""
    if not contents or contents[0]["role"] == "user":
        return contents
    losses.append(Loss("input", "begun with a user message"))
    return [{"role": "user", "parts": [{"text": OPENING_USER_TEXT}]}, *contents]


class _ContentsWriter(TurnWriter):
    def __init__(self, turn: Turn, profile: Profile, family: GeminiFamily, losses: list[Loss]) -> None:
        super().__init__(turn, profile, losses)
        self.system: list[str] = []
        self.contents: list[Json] = []
        mode = profile.call_signatures
        self._requires_signatures = family.requires_signed_calls if mode == "by_model" else mode == "placeholder"
        self._open_calls: list[int] = []
        """Indexes of the calls in the open content, whose results are not written yet."""
        self._open_parts: list[Json] = []
        """Parts of the model's open content."""
        self._pending_thoughts: list[Json] = []
        """Thought parts that go before the next text or call."""
        self._call_signatures: dict[str, str] = {}
        """Call id -> signature of a call that follows."""
        self._image_signatures: list[str] = []
        """Signatures of images that follow."""
        self._text_signatures: list[Json] = []
        """Details with signatures of texts that follow."""

    def _build_item_writers(self) -> dict[str, WriteItem]:
        return super()._build_item_writers() | {SEARCH_ITEM: self._add_search, _IMAGE_ITEM: self._add_image}

    def _add_user_content(self, parts: Sequence[Json], index: int) -> None:
        if lowered := lower_parts(parts, f"input[{index}].content", self._losses):
            self._add_parts("user", lowered)

    def _add_reasoning(self, _index: int, item: Item) -> None:
        own_details = list(details.gemini_details(item))
        text = render_past_reasoning(item)
        replay = self._profile.replay_reasoning
        signed = [detail for detail in own_details if detail["type"] == details.THOUGHT_TYPE]
        if signed or (text and replay not in ("none", "think_tags")):
            # A signed thought is always sent back, whatever the profile's `replay_reasoning` is.
            signatures = [_signature_field(detail) for detail in signed] or [{}]
            texts = [text, *("" for _ in signatures[1:])]
            self._pending_thoughts += [
                {"text": thought, "thought": True} | signature
                for thought, signature in zip(texts, signatures, strict=True)
            ]
        elif text and replay == "think_tags":
            self._pending_thoughts.append({"text": f"<think>\n{text}\n</think>\n\n"})
        elif not own_details and not is_signature_only(item):
            # A signature of Gemini contains the thought, so nothing is lost. A signature-only item of another model has
            # no text that could be lost.
            self._losses.append(Loss("input", "reasoning dropped"))
        for detail in own_details:
            if detail["type"] == details.CALL_TYPE:
                self._call_signatures[detail["call_id"]] = detail["signature"]
            elif detail["type"] == details.IMAGE_TYPE:
                self._image_signatures.append(detail["signature"])
            elif detail["type"] == details.TEXT_TYPE:
                self._sign_text(detail)

    def _add_call(self, index: int, item: Item) -> None:
        name, call_id = item["name"], item["call_id"]
        arguments = parse_past_arguments(
            item["arguments"], f"input[{index}].arguments", self._losses, max_bytes=self._profile.max_tool_args_bytes
        )
        function_call = {"id": call_id, "name": name, "args": arguments}
        signature = self._call_signatures.pop(call_id, None)
        if signature is None and self._requires_signatures and not self._open_calls:
            signature = _PLACEHOLDER_SIGNATURE
        self._append_part({"functionCall": function_call} | ({"thoughtSignature": signature} if signature else {}))
        self._open_calls.append(index)

    def _add_image(self, _index: int, item: Item) -> None:
        """Adds an image that a model made as a part of the model, with its signature: Gemini refuses those without one.
        https://ai.google.dev/gemini-api/docs/thought-signatures"""
        if not item.get("result"):
            self._losses.append(Loss("input", f"{_IMAGE_ITEM} dropped"))
            return
        medium = {"mimeType": f"image/{item.get('output_format') or 'png'}", "data": item["result"]}
        signature = self._image_signatures.pop(0) if self._image_signatures else None
        if signature is None and self._requires_signatures:
            signature = _PLACEHOLDER_SIGNATURE
        self._append_part({"inlineData": medium} | ({"thoughtSignature": signature} if signature else {}))

    def _add_search(self, _index: int, item: Item) -> None:
        """Reports the loss of another model's search. The API has no part for past searches, not for its own either."""
        if not details.is_own_search(item):
            self._losses.append(Loss("input", "web_search_call dropped"))

    def close_assistant(self) -> None:
        for detail in self._text_signatures:
            if self._open_parts:
                self._open_parts.append({"text": ""} | _signature_field(detail))
        self._text_signatures = []
        self._image_signatures = []
        if self._pending_thoughts:
            self._losses.append(Loss("input", "reasoning dropped"))
            self._pending_thoughts = []
        if self._open_parts:
            self._add_parts("model", self._open_parts)
        if self._open_calls:
            self.contents.append({"role": "user", "parts": self._build_results()})
        self._open_parts, self._open_calls = [], []

    def _add_parts(self, role: str, parts: list[Json]) -> None:
        """Adds parts of a role, to the last content if that has the same role: some models depend on the contents'
        number. Parts beside results of calls get no reply from the model, so those go into a content of their own.
        A content with results begins with one."""
        last = self.contents[-1] if self.contents else {}
        if last.get("role") == role and "functionResponse" not in last["parts"][0]:
            last["parts"] += parts
        else:
            self.contents.append({"role": role, "parts": parts})

    def _build_results(self) -> list[Json]:
        results: list[Json] = []
        media_parts: list[Json] = []
        for output, call in sorted((self._turn.call_pairs.output_of(call), call) for call in self._open_calls):
            item = self._items[output]
            result, media = _result_of(item, f"input[{output}].output", self._losses)
            response: Json = {"id": item["call_id"], "name": self._items[call]["name"], "response": result}
            if media and self._profile.media_in_tool_messages:
                response["parts"] = media
            elif media:
                media_parts += [{"text": f"Media from the output of {response['name']} ({item['call_id']}):"}, *media]
                self._losses.append(Loss("input", "tool media beside the output"))
            results.append({"functionResponse": response})
        return [*results, *media_parts]

    def _append_part(self, part: Json) -> None:
        self._open_parts += [*self._pending_thoughts, part]
        self._pending_thoughts = []

    def _add_assistant_text(self, text: str) -> None:
        signed, self._text_signatures = self._text_signatures, []
        if not text:
            self._text_signatures = signed
            return
        self._append_part({"text": text})
        for detail in signed:
            self._sign_text(detail)

    def _sign_text(self, detail: Json) -> None:
        """Adds a signature to the last text. If the last part is no text, the signature waits for the next text."""
        last = self._open_parts[-1] if self._open_parts else {}
        if "text" not in last or last.get("thought"):
            self._text_signatures.append(detail)
        elif detail.get("empty") or "thoughtSignature" in last:
            self._open_parts.append({"text": ""} | _signature_field(detail))
        else:
            last |= _signature_field(detail)

    def add_system(self, _role: str, text: str) -> None:
        if not self.contents:
            self.system.append(text)
        elif self._profile.system_messages == "merge_all":
            self.system.append(text)
            self._losses.append(Loss("input", "system messages merged"))
        else:
            self._add_parts("user", [{"text": text}])
            self._losses.append(Loss("input", "system message as user message"))


def _signature_field(detail: Json) -> Json:
    return {"thoughtSignature": detail["signature"]}


def _result_of(item: Item, param: str, losses: list[Loss]) -> tuple[Json, list[Json]]:
    """Returns the `response` object for a call output, and its media as parts, which the object cannot hold.

    An output is a failure if its status is unsuccessful or if it is a JSON object whose only key is `error`.
    """
    output, media = item["output"], list[Json]()
    if not isinstance(output, str):
        parts = lower_parts(output, param, losses)
        media = [part for part in parts if "text" not in part]
        output = "\n".join(part["text"] for part in parts if "text" in part)
    if (error := _error_in(output)) is not None:
        return {"error": error}, media
    return {"error" if item.get("status") in UNSUCCESSFUL_STATUSES else "output": output}, media


def _error_in(output: str) -> Any:
    if not output.lstrip().startswith("{"):
        return None
    try:
        parsed = orjson.loads(output)
    except orjson.JSONDecodeError:
        return None
    return parsed["error"] if parsed.keys() == {"error"} else None
