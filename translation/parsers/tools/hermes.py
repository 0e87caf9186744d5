"""Calls as Hermes, Qwen and many others write them: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`."""

import re
from typing import Final

from translation.parsers.tools.blocks import BlockParser
from translation.parsers.tools.call_json import CallJson

OPENING: Final = "<tool_call>"
CLOSING: Final = "</tool_call>"

_TAG: Final = re.compile(f"{OPENING}|{CLOSING}")


class HermesParser(BlockParser):
    """Any number of blocks with one call, a list of calls, or one call after the other in each."""

    def __init__(self) -> None:
        super().__init__(_TAG, CLOSING, values="{[", several=True)

    def _may_open(self, tail: str) -> bool:
        return OPENING.startswith(tail)

    def _new_reader(self, opening: re.Match[str]) -> CallJson:
        return CallJson()
