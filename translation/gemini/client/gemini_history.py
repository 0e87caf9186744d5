"""Lifts the contents of a request to Responses items. Does not know the request's parameters."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.client.parts import lift_medium, lift_result_medium
from translation.gemini.client.signatures import unpack_signature
from translation.hygiene.item_groups import add_empty_end
from translation.representation.items import new_input_text
from translation.representation.json_types import Item, Json
from translation.representation.loss import Loss
from translation.tools.unanswered_calls import UnansweredCalls

_CODE_KEYS: Final = ("executableCode", "codeExecutionResult")

_OUTPUT_KEYS: Final = ("output", "result")
"""Keys of a function's response that contain all of it, if the object has no other key."""

_ERROR_KEY: Final = "error"


def lift_contents(contents: Sequence[Json], losses: list[Loss]) -> list[Item]:
    """Returns the contents as items in full form. Losses are appended to `losses`.

    Raises InvalidRequest for a call without its response or the reverse, and Unrepresentable for a part that no item
    can represent.
    """
    history = _History(losses)
    for index, content in enumerate(contents):
        param = f"contents[{index}].parts"
        if content.get("role") == "model":
            for position, part in enumerate(content["parts"]):
                history.add_model_part(part, f"{param}[{position}]")
        else:
            history.add_user_parts(content["parts"], param)
    history.finish()
    if contents and contents[-1].get("role") != "model":
        add_empty_end(history.items, "user")
    return history.items


class _History:
    """The items so far, and data that waits for further parts."""

    def __init__(self, losses: list[Loss]) -> None:
        self.items: list[Item] = []
        self._losses = losses
        self._answer: list[str] | None = None
        """The texts of the model's open message. A stream's pieces of it come back as parts, or as whole contents."""
        self._thoughts: list[str] = []
        """Texts of thoughts whose seal is in the signature of the part after them."""
        self._open_calls = UnansweredCalls()
        self._images: list[Json] = []
        """Images of the model. Only user messages can have images, so the next one gets them."""
        self._image_places: list[str] = []
        self._responses: dict[str, Json] = {}
        """Responses so far that have an id, by the id of their call."""

    def add_user_parts(self, parts: Sequence[Json], param: str) -> None:
        self._end_thoughts()
        self._end_answer()
        lifted: list[Json] = []
        for position, part in enumerate(parts):
            place = f"{param}[{position}]"
            if "functionResponse" in part:
                if lifted:
                    self._add_user_message(lifted)
                    lifted = []
                self._add_response(part["functionResponse"], f"{place}.functionResponse")
            elif "functionCall" in part:
                raise InvalidRequest(
                    "Only contents with the role 'model' have calls of functions.", param=f"{place}.functionCall"
                )
            elif code_key := _code_key_of(part):
                lifted.append(new_input_text(_describe_code(part)))
                self._losses.append(Loss(f"{place}.{code_key}", "as text"))
            else:
                lifted += lift_medium(part, place, self._losses)
        # Images of the model come after the responses to its calls: nothing may stand between those and the calls.
        lifted = [*self._take_images(), *lifted]
        if lifted:
            self._add_user_message(lifted)

    def add_model_part(self, part: Json, param: str) -> None:
        if part.get("thought") and "text" in part:
            self._end_answer()
            self._thoughts.append(part["text"])
            return
        signature = unpack_signature(part.get("thoughtSignature"))
        self._end_thoughts(signature.thoughts)
        if "functionCall" in part:
            self._add_call(part["functionCall"], f"{param}.functionCall", signature.call)
        elif part.get("text"):
            self._add_text(part["text"])
        elif code_key := _code_key_of(part):
            self._add_text(_describe_code(part))
            self._losses.append(Loss(f"{param}.{code_key}", "as text"))
        elif part.get("thought"):
            self._losses.append(Loss(f"{param}.thought", "dropped"))  # an image that a model of Google's tried out
        elif _is_image(part):
            self._end_answer()
            self._images += lift_medium(part, param, self._losses)
            self._image_places.append(f"{param}.{'inlineData' if 'inlineData' in part else 'fileData'}")
        elif medium := next((key for key in ("inlineData", "fileData", "functionResponse") if key in part), None):
            raise Unrepresentable(
                f"contents with the role 'model' have texts and calls for this model's upstream: leave {medium} out",
                param=f"{param}.{medium}",
            )

    def finish(self) -> None:
        """Ends the history. Raises InvalidRequest for a call that has no response."""
        self._end_thoughts()
        self._end_answer()
        self._losses += [Loss(place, "dropped") for place in self._image_places]
        if (first := self._open_calls.first()) is not None:
            call, param = first
            raise InvalidRequest(
                f"The call of {call['name']!r:.100} has no functionResponse in the contents after it.", param=param
            )

    def _take_images(self) -> list[Json]:
        """Returns the images of the model that no message has yet."""
        images = self._images
        self._losses += [Loss(place, "as the user's") for place in self._image_places]
        self._images, self._image_places = [], []
        return images

    def _end_thoughts(self, sealed: Sequence[str] = ()) -> None:
        """Adds the thoughts before a part. The text beside a seal is for a server that cannot read the seal."""
        text = "".join(self._thoughts)
        self._thoughts = []
        for encrypted in sealed or ([""] if text else []):
            self._end_answer()
            item: Item = {"type": "reasoning", "summary": []}
            if text:
                item["content"] = [{"type": "reasoning_text", "text": text}]
                text = ""
            if encrypted:
                item["encrypted_content"] = encrypted
            self.items.append(item)

    def _add_text(self, text: str) -> None:
        if self._answer is None:
            self._answer = []
        self._answer.append(text)

    def _end_answer(self) -> None:
        if self._answer is not None:
            part = {"type": "output_text", "text": "".join(self._answer), "annotations": []}
            self.items.append({"type": "message", "role": "assistant", "content": [part]})
            self._answer = None

    def _add_call(self, call: Json, param: str, sealed: str | None) -> None:
        self._end_answer()
        name = call["name"]
        call_id = _restore_id(call.get("id"), name) or f"call_{len(self.items)}"
        arguments = orjson.dumps(call.get("args") or {}).decode()
        item: Item = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
        if sealed:
            item["encrypted_content"] = sealed
        self.items.append(item)
        self._open_calls.add(item, param)

    def _add_response(self, response: Json, param: str) -> None:
        if response.get("willContinue"):
            raise Unrepresentable("a function has one response here: leave willContinue out", param=param)
        if "scheduling" in response:
            self._losses.append(Loss(f"{param}.scheduling", "dropped"))
        name, call_id = response["name"], _restore_id(response.get("id"), response["name"])
        if self._is_repeated(response, call_id, param):
            return
        # Ids are optional in the API, and not every client sends them back.
        call = self._open_calls.pop_id(call_id) if call_id is not None else None
        if call is None:
            call = self._open_calls.pop_name(name)
        if call is None:
            raise InvalidRequest(f"There is no call of {name!r:.100} before this response.", param=param)
        if call_id is not None:
            self._responses[call_id] = response
        parts = [
            lifted
            for position, part in enumerate(response.get("parts") or ())
            for lifted in lift_result_medium(part, f"{param}.parts[{position}]", self._losses)
        ]
        text = _describe_result(response["response"])
        item: Item = {
            "type": "function_call_output",
            "call_id": call["call_id"],
            "output": [new_input_text(text), *parts] if parts else text,
        }
        if response["response"].get(_ERROR_KEY):
            item["status"] = "failed"
        self.items.append(item)

    def _is_repeated(self, response: Json, call_id: str | None, param: str) -> bool:
        """Whether the contents have this response already. Gemini CLI sends those of a resumed session twice.

        Raises InvalidRequest for another response to the same call, which must not become that of the next call.
        """
        if call_id is None or (earlier := self._responses.get(call_id)) is None or self._open_calls.has(call_id):
            return False
        if response != earlier:
            raise InvalidRequest(f"The call {call_id!r:.100} has another response before this one.", param=param)
        return True

    def _add_user_message(self, parts: list[Json]) -> None:
        self.items.append({"type": "message", "role": "user", "content": parts})


def _restore_id(call_id: str | None, name: str) -> str | None:
    """Returns the id that a call had in its reply. Gemini CLI puts the function's name before it."""
    return call_id.removeprefix(f"{name}__") if call_id else None


def _is_image(part: Json) -> bool:
    medium = part.get("inlineData") or part.get("fileData") or {}
    return (medium.get("mimeType") or "").lower().startswith("image/")


def _code_key_of(part: Json) -> str | None:
    return next((key for key in _CODE_KEYS if key in part), None)


def _describe_code(part: Json) -> str:
    """Returns code that Google's servers have run, or its result, as a text that any model can read."""
    if "executableCode" in part:
        code = part["executableCode"]
        return f"\n```{(code.get('language') or '').lower()}\n{code['code']}\n```\n"
    result = part["codeExecutionResult"]
    return f"\n```\n{result.get('output') or result.get('outcome') or ''}\n```\n"


def _describe_result(response: Json) -> str:
    """Returns a function's response as text: the output if the object has no other key, any other object as JSON."""
    [*keys] = response
    whole: Any = response[keys[0]] if len(keys) == 1 and keys[0] in _OUTPUT_KEYS else response
    return whole if isinstance(whole, str) else orjson.dumps(whole).decode()
