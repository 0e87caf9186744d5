"""The names of a turn's parameters in the Responses API, which are the client's own but for one."""

from typing import Final

from translation.representation.json_types import Json
from translation.representation.param_names import ParamNames


def _find_param(name: str, place: str, rest: str, body: Json) -> tuple[str, str, str]:
    if name == "reasoning" and rest == ".summary" and not place:
        reasoning = body.get("reasoning") or {}
        return name, "", rest if reasoning.get("summary") is not None else ".generate_summary"
    return name, place, rest


PARAM_NAMES: Final = ParamNames(
    input="input",
    max_output="max_output_tokens",
    reasoning="reasoning",
    reasoning_keys=frozenset({"reasoning", "reasoning_effort"}),
    thinking="thinking",
    text_format="text.format",
    logprobs="include",
    find=_find_param,
    overflow_input="input",
    overflow_limit="max_output_tokens",
)
