"""The format of Hermes, Qwen and many others: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`."""

import re
from typing import Final

from translation.parsers.tools.blocks import BlockParser
from translation.parsers.tools.call_json import JsonCallReader

OPENING_TAG: Final = "<tool_call>"
CLOSING_TAG: Final = "</tool_call>"

_TAG: Final = re.compile(f"{OPENING_TAG}|{CLOSING_TAG}", re.IGNORECASE | re.ASCII)


class HermesParser(BlockParser):
    """Parses any number of blocks. Each holds one call, a list of calls, or several calls in a row."""

    def __init__(self) -> None:
        super().__init__(_TAG, CLOSING_TAG, values="{[", several=True)

    def _may_open(self, tail: str) -> bool:
        return OPENING_TAG.startswith(tail)

    def _new_reader(self, opening: re.Match[str], *, tentative: bool) -> JsonCallReader:
        return JsonCallReader(tentative=tentative)
