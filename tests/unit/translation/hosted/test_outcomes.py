"""The outcome of a call, and what the model reads."""

from translation.hosted.outcomes import (
    ToolOutcome,
    build_execution_error,
    build_http_error,
    build_model_output,
    build_protocol_error,
)

IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}


def test_the_three_kinds_of_errors_have_the_forms_of_the_api() -> None:
    assert build_execution_error("x").error == {
        "type": "mcp_tool_execution_error",
        "content": [{"type": "text", "text": "x"}],
    }
    assert build_protocol_error(-32600, "x").error == {"type": "mcp_protocol_error", "code": -32600, "message": "x"}
    assert build_http_error(502, "x").error == {"type": "http_error", "code": 502, "message": "x"}
    assert build_execution_error("x").failed
    assert not ToolOutcome(output="x").failed


def test_the_model_reads_a_text_or_parts() -> None:
    assert build_model_output("5", ()) == "5"
    assert build_model_output("", ()) == ""
    assert build_model_output("5", (IMAGE,)) == [{"type": "input_text", "text": "5"}, IMAGE]
    assert build_model_output("", (IMAGE,)) == [IMAGE], "some upstreams refuse empty texts"
