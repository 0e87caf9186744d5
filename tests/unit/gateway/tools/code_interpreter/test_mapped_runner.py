"""What a model reads of code whose result did not come."""

from typing import Any, Final, cast

import pytest

from gateway.tools.code_interpreter.code_runner import CodeCallFailed
from gateway.tools.code_interpreter.mapped_runner import MappedRunner
from gateway.tools.mapped_tools.found_entries import MappedToolFailed

UNKNOWN: Final = "The outcome of the code is unknown"
NOT_RUN: Final = "The code could not be run, or its output cannot be read"
FAULTS: Final = {
    "timeout": UNKNOWN,
    "connection_closed": UNKNOWN,
    "session_lost": UNKNOWN,
    "http_error": UNKNOWN,
    "server_removed": UNKNOWN,
    "the server does not list the tool": NOT_RUN,
    "authorization_failed": NOT_RUN,
    "egress_refused": NOT_RUN,
    "result_too_large": NOT_RUN,
}


class FailingTool:
    label = "finder"

    def __init__(self, why: str) -> None:
        self._why = why

    async def call(self, *_: Any) -> Any:
        raise MappedToolFailed(self._why)


@pytest.mark.parametrize(("why", "text"), FAULTS.items())
async def test_code_that_may_have_run_is_not_called_code_that_did_not_run(why: str, text: str) -> None:
    runner = MappedRunner(cast(Any, FailingTool(why)))
    with pytest.raises(CodeCallFailed) as failed:
        await runner.run("print(1)", 5, None)
    assert str(failed.value).startswith(text)
