"""The formats in which calls are blocks between tags: those of Hermes and of Llama."""

import re
from typing import Final

from translation.parsers.tools.blocks import BlockParser
from translation.parsers.tools.call_json import JsonCallReader, NamedArgumentsReader
from translation.parsers.tools.parser_output import CallArguments, CallEnded, CallStarted, ParserOutput

HERMES_OPENING: Final = "<tool_call>"
HERMES_CLOSING: Final = "</tool_call>"

_HERMES_TAG: Final = re.compile(f"{HERMES_OPENING}|{HERMES_CLOSING}", re.IGNORECASE | re.ASCII)

LLAMA_OPENING: Final = "<function="
LLAMA_CLOSING: Final = "</function>"

_LLAMA_NAME: Final = r"[^<>\s]{1,200}"
_LLAMA_TAG: Final = re.compile(f"{LLAMA_OPENING}({_LLAMA_NAME})>|{LLAMA_CLOSING}", re.IGNORECASE | re.ASCII)
_PARTIAL_LLAMA_OPENING: Final = re.compile(f"{LLAMA_OPENING}{_LLAMA_NAME}")


class HermesParser(BlockParser):
    """The format of Hermes, Qwen and many others: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.

    There may be any number of blocks. Each holds one call, a list of calls, or several calls in a row.
    """

    def __init__(self) -> None:
        super().__init__(_HERMES_TAG, HERMES_CLOSING, values="{[", several=True)

    def _may_open(self, tail: str) -> bool:
        return HERMES_OPENING.startswith(tail)

    def _new_reader(self, opening: re.Match[str], *, tentative: bool) -> JsonCallReader:
        return JsonCallReader(tentative=tentative)


class LlamaParser(BlockParser):
    """The format of Llama 3.1 for custom tools: `<function=name>{…}</function>`.

    There may be any number of blocks. Each holds the arguments of one call; an empty block is a call without arguments.
    """

    def __init__(self) -> None:
        super().__init__(_LLAMA_TAG, LLAMA_CLOSING, values="{", several=False)

    def _may_open(self, tail: str) -> bool:
        return LLAMA_OPENING.startswith(tail) or _PARTIAL_LLAMA_OPENING.fullmatch(tail) is not None

    def _new_reader(self, opening: re.Match[str], *, tentative: bool) -> NamedArgumentsReader:
        return NamedArgumentsReader(opening[1])

    def _read_empty_block(self, opening: re.Match[str], content: str, raw: str) -> list[ParserOutput]:
        if content.strip():
            return super()._read_empty_block(opening, content, raw)
        return [CallStarted(opening[1]), CallArguments("{}"), CallEnded()]
