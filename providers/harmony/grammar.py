"""The grammar of a turn of gpt-oss with tools or with a schema for its answer: thinking, then a call or the answer.

Commentary before the call or the answer is only allowed if the answer has no schema.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from providers.harmony.encoding import ControlTokens
from providers.harmony.gbnf import GrammarRules, render_gbnf_literal
from providers.harmony.trained_tools import find_call_header
from translation.representation.json_types import Json

BegunMessage: TypeAlias = Literal["thinking", "answer"]

_NO_NAMES: Final[Mapping[str, str]] = {}

_TEXT_RULES: Final = {
    "text": r'([^<] text | "<" text-after-less)?',
    "text-after-less": r'([^<|] text | "<" text-after-less | "|" text-after-bar)?',
    "text-after-bar": r'([^<a-z] text | "<" text-after-less)?',
}
"""Any text that does not contain the beginning of a control token's spelling."""


class HarmonyGrammar:
    """`text` is the grammar in llama.cpp's notation. `unenforced` are the keywords of schemas that it does not enforce:
    by the name of the tool, and by an empty name for the schema of the answer."""

    def __init__(
        self,
        control_tokens: ControlTokens,
        tools: Sequence[Json],
        *,
        answer_schema: Any = None,
        must_call: bool = False,
        may_think: bool = True,
        begun: BegunMessage | None = None,
        trained_names: Mapping[str, str] = _NO_NAMES,
    ) -> None:
        """`answer_schema` is the schema of the final answer; None: any text. With `must_call` a final answer is not
        allowed. `begun` is the message that the prompt ends in, and that the model continues. A begun answer has no
        schema, and ends the turn unless a call must follow. `trained_names` has the functions that stand for tools
        which the model knows from its training.

        The grammar refers to control tokens by their ids, so that text that looks like one cannot take their place.
        """
        rules = GrammarRules()
        self.unenforced: dict[str, set[str]] = {}
        channel, message = _render_token(control_tokens.channel), _render_token(control_tokens.message)
        constrained = f'(" "? {_render_token(control_tokens.constrain)}? "json")?'
        ends: list[str] = []
        for index, tool in enumerate(tools):
            function = tool["function"]
            rules.unenforced = set()
            arguments = rules.add_schema(function.get("parameters") or {"type": "object"}, f"tool-{index}")
            if rules.unenforced:
                self.unenforced[function["name"]] = rules.unenforced
            form = find_call_header(function["name"], trained_names)
            to = render_gbnf_literal(f" to={form.recipient}")
            on = " | ".join(map(render_gbnf_literal, form.channels))
            on = f"({on})" if len(form.channels) > 1 else on
            header = f"({to} {channel} {on} | {channel} {on} {to})"
            content_type = constrained if form.other_type is None else f'(" {form.written_type}" | {constrained})'
            ends.append(rules.add_rule(f"call-{index}", f"{header} {content_type} {message} {arguments}"))
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
        if begun == "answer" and not must_call:
            self.text = f"root ::= text\n{rules.text()}\n"
            return
        end = f'{_render_token(control_tokens.end)} {_render_token(control_tokens.start)} "assistant"'
        # Clients get commentary as the beginning of the answer. Before an answer with a schema it would break the JSON.
        channels = [
            name for name, is_allowed in (("analysis", may_think), ("commentary", answer_schema is None)) if is_allowed
        ]
        if channels:
            content_rule = " | ".join(map(render_gbnf_literal, channels))
            rules.add_rule("step", f"{channel} ({content_rule}) {message} text {end}")
        rest = f"{'step* ' if channels else ''}({' | '.join(ends)})"
        self.text = f"root ::= {f'text {end} {rest}' if begun else rest}\n{rules.text()}\n"


def _render_token(token: int) -> str:
    return f"<[{token}]>"
