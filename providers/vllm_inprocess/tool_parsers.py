"""Adapts vLLM's tool parsers (`tool_parser: vllm:NAME`) to the gateway's protocol of tool parsers.

Only the form of their results is changed, so their mistakes stay.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from providers.errors import UpstreamRejected
from translation.parsers.tools import CallArguments, CallEnded, CallStarted, MalformedCall, ParserOutput, PlainText
from translation.parsers.tools.parser_output import BlankFilter
from translation.representation.json_types import Json

VLLM_PARSER_PREFIX: Final = "vllm:"


class VllmToolParser:
    """Parses one answer with one of vLLM's parsers. `tools` are in the form of Chat Completions.

    Raises UpstreamRejected if vLLM has no such parser, or if the parser does not fit the model's tokenizer.
    """

    def __init__(self, name: str, tokenizer: Any, tools: Sequence[Json]) -> None:
        library = import_module("providers.vllm_inprocess.parser_library")
        try:
            self._request = library.ChatCompletionRequest(
                model="", messages=[{"role": "user", "content": ""}], tools=list(tools) or None, tool_choice="auto"
            )
            kind = library.ParserManager.get_parser(
                tool_parser_name=name.removeprefix(VLLM_PARSER_PREFIX), enable_auto_tools=True, tokenizer=tokenizer
            )
            self._parser = kind(tokenizer, self._request.tools)
            self._request = self._parser.adjust_request(self._request)
        except Exception as failure:  # for an unsuitable tokenizer, constructors of parsers may raise anything
            raise UpstreamRejected(f"the tool parser {name} does not work with this model: {failure}") from failure
        self._tokenizer = tokenizer
        self._markers = sorted(tokenizer.get_added_vocab())
        self._max_partial_marker = max(map(len, self._markers), default=1) - 1
        self._pending = ""
        self._full_text = ""
        self._has_output = False
        self._index: int | None = None
        self._arguments: list[str] = []
        self._blanks = BlankFilter()

    @property
    def needs_special_tokens(self) -> bool:
        """Whether the parser needs the special tokens in the text."""
        return not self._request.skip_special_tokens

    def feed(self, text: str) -> list[ParserOutput]:
        self._full_text += text
        # vLLM's parsers also look for markers among the token ids, so a marker must not be split between two calls.
        text = self._pending + text
        pending_size = self._measure_partial_marker(text)
        self._pending = text[len(text) - pending_size :]
        ready = text[: len(text) - pending_size]
        return self._parse_text(ready, finished=False) if ready else []

    def finish(self) -> list[ParserOutput]:
        results = [
            *self._parse_text(self._pending, finished=True),
            *self._blanks.filter_blanks(self._end_call(cut=True)),
        ]
        # Some of vLLM's parsers do not support streams: they return nothing until they get the whole text.
        return results if results or self._has_output else self._parse_full_text()

    def _measure_partial_marker(self, text: str) -> int:
        """Returns how many characters at the end of a text may be the beginning of a marker."""
        sizes = range(min(self._max_partial_marker, len(text)), 0, -1)
        return next((size for size in sizes if self._is_partial_marker(text[-size:])), 0)

    def _is_partial_marker(self, text: str) -> bool:
        """Whether a marker begins with the text and is longer. It is a binary search, because some models have
        thousands of markers and this runs for every delta."""
        after = bisect_right(self._markers, text)
        return after < len(self._markers) and self._markers[after].startswith(text)

    def _parse_text(self, text: str, *, finished: bool) -> list[ParserOutput]:
        results: list[ParserOutput] = []
        steps = self._split_tokens(text)
        for number, (step, ids) in enumerate(steps, 1):
            last = finished and number == len(steps)
            delta = self._parser.parse_delta(step, ids, self._request, prompt_token_ids=[], finished=last)
            if delta is not None:
                results += [PlainText(delta.content)] if delta.content else []
                for call in delta.tool_calls or ():
                    results += self._parse_call_delta(call)
        self._has_output = self._has_output or bool(results)
        return self._blanks.filter_blanks(results)

    def _split_tokens(self, text: str) -> list[tuple[str, list[int]]]:
        """Splits the text into tokens. Several parsers lose count otherwise, because vLLM's server feeds them token by
        token."""
        if not text or not self._tokenizer.is_fast:
            return [(text, list(self._tokenizer.encode(text, add_special_tokens=False)) if text else [])]
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        steps: list[tuple[str, list[int]]] = []
        begin, ids = 0, list[int]()
        for token, (_, end) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
            ids.append(token)
            if end > begin:
                steps.append((text[begin:end], ids))
                begin, ids = end, []
        return [*steps, (text[begin:], ids)] if ids or begin < len(text) else steps

    def _parse_full_text(self) -> list[ParserOutput]:
        _, content, calls = self._parser.parse(self._full_text, self._request, enable_auto_tools=True)
        results: list[ParserOutput] = [PlainText(content)] if content else []
        for call in calls or ():
            results += [CallStarted(call.name), CallArguments(call.arguments or "{}"), CallEnded()]
        return self._blanks.filter_blanks(results)

    def _parse_call_delta(self, call: Any) -> list[ParserOutput]:
        """Returns the outputs of a call's delta, which continues the open call or begins the next."""
        results: list[ParserOutput] = []
        function = call.function
        if function is not None and function.name and call.index != self._index:
            results += self._end_call(cut=False)
            self._index = call.index
            results.append(CallStarted(function.name))
        if function is not None and function.arguments and self._index is not None:
            self._arguments.append(function.arguments)
            results.append(CallArguments(function.arguments))
        return results

    def _end_call(self, *, cut: bool) -> list[ParserOutput]:
        """Ends the open call, if there is one. The arguments are checked, because vLLM's parsers do not say whether a
        call is complete."""
        if self._index is None:
            return []
        arguments = "".join(self._arguments)
        self._index, self._arguments = None, []
        if not arguments.strip():
            return [CallArguments("{}"), CallEnded()]
        try:
            json.loads(arguments)
        except ValueError as error:
            return [MalformedCall(arguments, f"its arguments are not JSON: {error}", cut)]
        return [CallEnded()]
