"""What a turn of gpt-oss may be, where that is not everything: thoughts, then a declared call or a held answer.

What it says beside its thoughts, before either, may be said where no answer is held.
"""

from collections.abc import Sequence
from typing import Any, Final

from providers.harmony.encoding import ControlTokens
from providers.harmony.gbnf import GrammarRules, gbnf_literal
from translation.representation.json_types import Json

_TEXT_RULES: Final = {
    "text": r'([^<] text | "<" text-after-less)?',
    "text-after-less": r'([^<|] text | "<" text-after-less | "|" text-after-bar)?',
    "text-after-bar": r'([^<a-z] text | "<" text-after-less)?',
}
"""Any text that does not begin to spell a control token."""


class HarmonyGrammar:
    """`text` is the grammar in llama.cpp's notation; `left_open` are keywords of a tool's schema, by its name, and of
    the answer's by an empty one, that it does not hold to."""

    def __init__(
        self,
        control_tokens: ControlTokens,
        tools: Sequence[Json],
        *,
        answer_schema: Any = None,
        must_call: bool = False,
        may_think: bool = True,
    ) -> None:
        """`answer`: the schema of a final answer; None: any text. `must_call`: there is no final answer.

        Control tokens are written by their ids: no text that only looks like one takes their place.
        """
        rules = GrammarRules()
        self.unenforced: dict[str, set[str]] = {}
        channel, message = _token_rule(control_tokens.channel), _token_rule(control_tokens.message)
        constrained = f'(" "? {_token_rule(control_tokens.constrain)}? "json")?'
        ends: list[str] = []
        for place, tool in enumerate(tools):
            function = tool["function"]
            rules.unenforced = set()
            arguments = rules.add_schema(function.get("parameters") or {"type": "object"}, f"tool-{place}")
            if rules.unenforced:
                self.unenforced[function["name"]] = rules.unenforced
            to = gbnf_literal(f" to=functions.{function['name']}")
            header = f'({to} {channel} "commentary" | {channel} "commentary" {to})'
            ends.append(rules.add_rule(f"call-{place}", f"{header} {constrained} {message} {arguments}"))
        if not must_call:
            content_rule = "text"
            if answer_schema is not None:
                rules.unenforced = set()
                content_rule = rules.add_schema(answer_schema, "answer")
                if rules.unenforced:
                    self.unenforced[""] = rules.unenforced
            constraint = f"{constrained} " if answer_schema is not None else ""
            ends.append(rules.add_rule("final", f'{channel} "final" {constraint}{message} {content_rule}'))
        rules.rules |= _TEXT_RULES
        # A client is told what is said before an answer as its beginning: in front of a held one it would be no JSON.
        kinds = [name for name, may_be in (("analysis", may_think), ("commentary", answer_schema is None)) if may_be]
        if kinds:
            content_rule = " | ".join(map(gbnf_literal, kinds))
            end = f'{_token_rule(control_tokens.end)} {_token_rule(control_tokens.start)} "assistant"'
            rules.add_rule("step", f"{channel} ({content_rule}) {message} text {end}")
        self.text = f"root ::= {'step* ' if kinds else ''}({' | '.join(ends)})\n{rules.text()}\n"


def _token_rule(mark: int) -> str:
    return f"<[{mark}]>"
