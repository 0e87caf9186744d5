"""Items of the Responses API as calls of AG-UI."""

import pytest

from translation.agui.tool_items import require_call


def test_an_item_that_is_no_call_is_refused() -> None:
    with pytest.raises(ValueError, match="message"):
        require_call({"type": "message", "id": "msg_1", "content": []})
