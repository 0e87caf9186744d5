"""What a turn of gpt-oss may be, where that is not everything: thoughts, then a declared call or a held answer.

What it says beside its thoughts, before either, may be said where no answer is held.
"""

from collections.abc import Sequence
from typing import Any, Final

from providers.harmony.encoding import Marks
from providers.harmony.gbnf import Rules, literal
from translation.representation.json_types import Json

_TEXT: Final = {
    "text": r'([^<] text | "<" text-after-less)?',
    "text-after-less": r'([^<|] text | "<" text-after-less | "|" text-after-bar)?',
    "text-after-bar": r'([^<a-z] text | "<" text-after-less)?',
}
"""Any text that does not begin to spell a control token."""


class Grammar:
    """`text` is the grammar in llama.cpp's notation; `left_open` are keywords of a tool's schema, by its name, and of
    the answer's by an empty one, that it does not hold to."""

    def __init__(
        self, marks: Marks, tools: Sequence[Json], *, answer: Any = None, must_call: bool = False, thinks: bool = True
    ) -> None:
        """`answer`: the schema of a final answer; None: any text. `must_call`: there is no final answer.

        Control tokens are written by their ids: no text that only looks like one takes their place.
        """
        rules = Rules()
        self.left_open: dict[str, set[str]] = {}
        channel, message = _token(marks.channel), _token(marks.message)
        constrained = f'(" "? {_token(marks.constrain)}? "json")?'
        ends: list[str] = []
        for place, tool in enumerate(tools):
            function = tool["function"]
            rules.left_open = set()
            arguments = rules.of(function.get("parameters") or {"type": "object"}, f"tool-{place}")
            if rules.left_open:
                self.left_open[function["name"]] = rules.left_open
            to = literal(f" to=functions.{function['name']}")
            header = f'({to} {channel} "commentary" | {channel} "commentary" {to})'
            ends.append(rules.add(f"call-{place}", f"{header} {constrained} {message} {arguments}"))
        if not must_call:
            said = "text"
            if answer is not None:
                rules.left_open = set()
                said = rules.of(answer, "answer")
                if rules.left_open:
                    self.left_open[""] = rules.left_open
            held = f"{constrained} " if answer is not None else ""
            ends.append(rules.add("final", f'{channel} "final" {held}{message} {said}'))
        rules.rules |= _TEXT
        # A client is told what is said before an answer as its beginning: in front of a held one it would be no JSON.
        kinds = [name for name, may_be in (("analysis", thinks), ("commentary", answer is None)) if may_be]
        if kinds:
            said = " | ".join(map(literal, kinds))
            end = f'{_token(marks.end)} {_token(marks.start)} "assistant"'
            rules.add("step", f"{channel} ({said}) {message} text {end}")
        self.text = f"root ::= {'step* ' if kinds else ''}({' | '.join(ends)})\n{rules.text()}\n"


def _token(mark: int) -> str:
    return f"<[{mark}]>"
