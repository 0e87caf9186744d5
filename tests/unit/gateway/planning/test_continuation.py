"""What a continued conversation keeps of its stored items."""

import pytest

from gateway.planning.continuation import drop_unfinished_calls

OUTPUTS = (
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
    "computer_call_output",
)


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_call_that_was_cut_off_is_dropped_and_an_output_of_a_failed_call_is_kept(kind: str) -> None:
    call = {"type": kind.removesuffix("_output"), "call_id": "c", "status": "completed"}
    output = {"type": kind, "call_id": "c", "status": "incomplete", "output": "the tool timed out"}
    cut = {"type": kind.removesuffix("_output"), "call_id": "d", "status": "incomplete"}
    message = {"type": "message", "status": "incomplete", "role": "assistant", "content": []}
    assert drop_unfinished_calls([call, output, message, cut]) == [call, output, message]
