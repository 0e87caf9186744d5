"""Calls as Llama 3.1 writes them for tools of one's own: `<function=name>{…}</function>`."""

import re
from typing import Final

from translation.parsers.tools.blocks import BlockParser
from translation.parsers.tools.call_json import NamedArguments
from translation.parsers.tools.parser_output import Arguments, CallEnded, CallStarted, Said

OPENING: Final = "<function="
CLOSING: Final = "</function>"

_NAME: Final = r"[^<>\s]{1,200}"
_TAG: Final = re.compile(f"{OPENING}({_NAME})>|{CLOSING}")
_BEGUN: Final = re.compile(f"{OPENING}{_NAME}")


class LlamaParser(BlockParser):
    """Any number of blocks, each with the arguments of one call; an empty one is a call without arguments."""

    def __init__(self) -> None:
        super().__init__(_TAG, CLOSING, values="{", several=False)

    def _may_open(self, tail: str) -> bool:
        return OPENING.startswith(tail) or _BEGUN.fullmatch(tail) is not None

    def _new_reader(self, opening: re.Match[str]) -> NamedArguments:
        return NamedArguments(opening[1])

    def _of_nothing(self, opening: re.Match[str], raw: str) -> list[Said]:
        if raw.removeprefix(opening[0]).removesuffix(CLOSING).strip():
            return super()._of_nothing(opening, raw)
        return [CallStarted(opening[1]), Arguments("{}"), CallEnded()]
