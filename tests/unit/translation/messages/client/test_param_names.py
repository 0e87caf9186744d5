"""Parameters of a turn by the names that a client of the Messages API knows."""

import pytest

from translation.messages.client.param_names import PARAM_NAMES
from translation.representation.json_types import Json

NAMES: dict[str, tuple[tuple[str, str, str], Json, str]] = {
    "a file's data in a block": (("input", "[0]", ".content[1].file_data"), {}, "messages[0].content[1].source"),
    "a file's name in a block": (("input", "[0]", ".content[1].filename"), {}, "messages[0].content[1].title"),
    "the id of a call, which is in one of the blocks": (("input", "[2]", ".call_id"), {}, "messages[2]"),
    "another key of a message": (("input", "[0]", ".content[1].text"), {}, "messages[0].content[1].text"),
    "the system prompt": (("instructions", "", ""), {}, "system"),
    "the effort, which is all of the reasoning": (("reasoning", "", ""), {}, "output_config.effort"),
    "the reasoning of a client that asked for thinking": (
        ("reasoning", "", ""),
        {"thinking": {}},
        "output_config.effort",
    ),
    "the reasoning of a client that set how to think": (
        ("reasoning", "", ""),
        {"thinking": {"type": "enabled"}},
        "thinking",
    ),
    "the effort": (("reasoning", "", ".effort"), {}, "output_config.effort"),
    "the budget": (("reasoning", "", ".max_tokens"), {}, "thinking.budget_tokens"),
    "another key of the reasoning": (("reasoning", "", ".summary"), {}, "thinking"),
    "the format of the text": (("text", "", ".format.schema"), {}, "output_config.format"),
    "the format of the text, by its old name": (("text", "", ".format"), {"output_format": {}}, "output_format"),
    "parallel calls": (("parallel_tool_calls", "", ""), {}, "tool_choice.disable_parallel_tool_use"),
    "the user": (("safety_identifier", "", ""), {}, "metadata.user_id"),
    "the filters of a search": (
        ("tools", "[0]", ".filters.allowed_domains"),
        {"tools": [{}]},
        "tools[0].allowed_domains",
    ),
    "a name that both have": (("top_p", "", ""), {"top_p": 1}, "top_p"),
    "a name that the API does not have": (("seed", "", ""), {}, "seed"),
}


@pytest.mark.parametrize(("param", "body", "expected"), NAMES.values(), ids=NAMES)
def test_parameters_have_the_clients_names(param: tuple[str, str, str], body: Json, expected: str) -> None:
    assert "".join(PARAM_NAMES.find(*param, body)) == expected
