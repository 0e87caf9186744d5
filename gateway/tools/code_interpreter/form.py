"""The items by which clients see code that was run: `code_interpreter_call`."""

from typing import Any, Final

import orjson

from translation.hosted.call_forms import CallForm, CallView, PastHostedCall
from translation.hosted.citations.citation_table import read_result_details, remove_markers
from translation.representation.json_types import Item, Json, mapping_or_empty

CODE_INTERPRETER: Final = "code_interpreter"

_UNKNOWN: Final = "The code was run. Its output is no longer known: run it again if you need it."
_FAILED: Final = "This call failed."


class CodeInterpreterForm(CallForm):
    """Items of the type `code_interpreter_call`. Their code is sent when it is complete, and their outputs at the end
    of the call."""

    item_type = "code_interpreter_call"
    id_prefix = "ci"
    run_phases = ("interpreting",)
    text_key = "code"

    def __init__(self, container_id: str = "") -> None:
        self._container_id = container_id

    def build_fields(self, call: CallView) -> Json:
        fields: Json = {
            "code": self.read_text(call.arguments),
            "container_id": self._container_id,
            "outputs": None,
        }
        return fields | (call.outcome.fields or {})

    def read_text(self, arguments: str) -> str:
        try:
            return read_code(orjson.loads(arguments)) if arguments else ""
        except orjson.JSONDecodeError:
            return ""

    def read_past(self, item: Item) -> PastHostedCall:
        code = item.get("code")
        arguments = orjson.dumps({"code": code if isinstance(code, str) else ""}).decode()
        result = read_result_details(item.get("details"))
        if result is not None:
            return PastHostedCall(CODE_INTERPRETER, CODE_INTERPRETER, arguments, result.text, result.citables)
        outputs = item.get("outputs")
        entries = map(mapping_or_empty, outputs if isinstance(outputs, list) else ())
        logs = [each["logs"] for each in entries if isinstance(each.get("logs"), str)]
        unknown = _FAILED if item.get("status") == "failed" else _UNKNOWN
        return PastHostedCall(CODE_INTERPRETER, CODE_INTERPRETER, arguments, remove_markers("\n".join(logs)) or unknown)


CODE_INTERPRETER_FORM: Final = CodeInterpreterForm()


def read_code(arguments: Any) -> str:
    """Returns the code in the arguments of a call; empty if there is none."""
    code = arguments.get("code") if isinstance(arguments, dict) else None
    return code if isinstance(code, str) else ""
