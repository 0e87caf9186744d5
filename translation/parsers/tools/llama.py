"""The format of Llama 3.1 for custom tools: `<function=name>{…}</function>`."""

import re
from typing import Final

from translation.parsers.tools.blocks import BlockParser
from translation.parsers.tools.call_json import NamedArgumentsReader
from translation.parsers.tools.parser_output import CallArguments, CallEnded, CallStarted, ParserOutput

OPENING_TAG: Final = "<function="
CLOSING_TAG: Final = "</function>"

_NAME: Final = r"[^<>\s]{1,200}"
_TAG: Final = re.compile(f"{OPENING_TAG}({_NAME})>|{CLOSING_TAG}", re.IGNORECASE | re.ASCII)
_PARTIAL_OPENING: Final = re.compile(f"{OPENING_TAG}{_NAME}")


class LlamaParser(BlockParser):
    """Parses any number of blocks. Each holds the arguments of one call; an empty block is a call without arguments."""

    def __init__(self) -> None:
        super().__init__(_TAG, CLOSING_TAG, values="{", several=False)

    def _may_open(self, tail: str) -> bool:
        return OPENING_TAG.startswith(tail) or _PARTIAL_OPENING.fullmatch(tail) is not None

    def _new_reader(self, opening: re.Match[str], *, tentative: bool) -> NamedArgumentsReader:
        return NamedArgumentsReader(opening[1])

    def _read_empty_block(self, opening: re.Match[str], content: str, raw: str) -> list[ParserOutput]:
        if content.strip():
            return super()._read_empty_block(opening, content, raw)
        return [CallStarted(opening[1]), CallArguments("{}"), CallEnded()]
