"""vLLM's tool parsers as parsers of ours, on stand-ins for them; tests/engine/ has a real one read real calls."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from providers.errors import UpstreamRejected
from providers.vllm_inprocess import tool_parsers
from providers.vllm_inprocess.tool_parsers import VllmToolParser
from tests.unit.support.vllm_fakes import Tokenizer
from translation.parsers.tools import CallArguments, CallEnded, CallStarted, MalformedCall, ParserOutput, PlainText

TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {}}}]


class Marked(Tokenizer):
    """A tokenizer in which `<tool_call>` is one token."""

    is_fast = True

    def get_added_vocab(self) -> dict[str, int]:
        return {"<tool_call>": 3}

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        ids, offsets, at = [], [], 0
        while at < len(text):
            size = len("<tool_call>") if text.startswith("<tool_call>", at) else 1
            ids.append(3 if size > 1 else ord(text[at]))
            offsets.append((at, at + size))
            at += size
        return {"input_ids": ids, "offset_mapping": offsets}


def delta(content: str | None = None, *calls: Any) -> Any:
    return SimpleNamespace(content=content, tool_calls=list(calls))


def piece(index: int, name: str | None = None, arguments: str | None = None) -> Any:
    return SimpleNamespace(index=index, function=SimpleNamespace(name=name, arguments=arguments))


class Parser:
    """Returns its script, one entry for each token; nothing when it is used up."""

    script: Sequence[Any] = ()
    whole: Any = (None, None, None)
    skips_special_tokens = True

    def __init__(self, tokenizer: Any, tools: Any) -> None:
        self.seen: list[tuple[str, list[int]]] = []
        self.left = list(self.script)

    def adjust_request(self, request: Any) -> Any:
        request.skip_special_tokens = self.skips_special_tokens
        return request

    def parse_delta(
        self, text: str, ids: list[int], request: Any, *, prompt_token_ids: list[int], finished: bool
    ) -> Any:
        assert prompt_token_ids == []
        self.seen.append((text, ids))
        return self.left.pop(0) if self.left else None

    def parse(self, text: str, request: Any, *, enable_auto_tools: bool) -> Any:
        assert enable_auto_tools
        return self.whole


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> type[Parser]:
    class Own(Parser):
        pass

    def get_parser(*, tool_parser_name: str, enable_auto_tools: bool, tokenizer: Any) -> type[Parser]:
        if tool_parser_name != "stand_in":
            raise TypeError(f"no {tool_parser_name}")
        return Own

    library = SimpleNamespace(
        ChatCompletionRequest=lambda **given: SimpleNamespace(**given, skip_special_tokens=True),
        ParserManager=SimpleNamespace(get_parser=get_parser),
    )
    monkeypatch.setattr(tool_parsers, "import_module", lambda _: library)
    return Own


def read(*texts: str) -> list[ParserOutput]:
    reader = VllmToolParser("vllm:stand_in", Marked(), TOOLS)
    return [said for text in texts for said in reader.feed(text)] + reader.finish()


def test_calls_and_text_have_the_form_of_all_parsers(parser: type[Parser]) -> None:
    parser.script = [
        delta("I add."),
        delta(None, piece(0, "add", None)),
        delta(None, piece(0, None, '{"a": ')),
        delta(None, piece(0, None, "1}"), piece(1, "add", "{}")),
        delta(" "),
    ]
    assert read("abcd", "e") == [
        PlainText("I add."),
        CallStarted("add"),
        CallArguments('{"a": '),
        CallArguments("1}"),
        CallEnded(),
        CallStarted("add"),
        CallArguments("{}"),
        CallEnded(),
    ]


def test_a_call_without_arguments_has_an_empty_object(parser: type[Parser]) -> None:
    parser.script = [delta(None, piece(0, "add"))]
    assert read("x") == [CallStarted("add"), CallArguments("{}"), CallEnded()]


def test_a_call_that_is_no_json_is_unreadable(parser: type[Parser]) -> None:
    parser.script = [delta(None, piece(0, "add", '{"a"'))]
    started, arguments, broken = read("x")
    assert (started, arguments) == (CallStarted("add"), CallArguments('{"a"'))
    assert isinstance(broken, MalformedCall)
    assert (broken.raw, broken.truncated) == ('{"a"', True)


@pytest.mark.parametrize("cut", range(len("hi<tool_call>!")))
def test_the_parser_gets_markers_whole_and_text_token_by_token(cut: int, parser: type[Parser]) -> None:
    text = "hi<tool_call>!"
    reader = VllmToolParser("vllm:stand_in", Marked(), TOOLS)
    for part in (text[:cut], text[cut:]):
        reader.feed(part)
    reader.finish()
    seen = [each for each in reader._parser.seen if each[0]]
    assert seen == [("h", [104]), ("i", [105]), ("<tool_call>", [3]), ("!", [33])]


def test_a_parser_without_streaming_gets_the_whole_text(parser: type[Parser]) -> None:
    parser.whole = (None, "Adding.", [SimpleNamespace(name="add", arguments='{"a": 1}')])
    assert read("ab", "c") == [PlainText("Adding."), CallStarted("add"), CallArguments('{"a": 1}'), CallEnded()]


@pytest.mark.parametrize("skips", [True, False])
def test_a_parser_declares_whether_it_needs_special_tokens(skips: bool, parser: type[Parser]) -> None:
    parser.skips_special_tokens = skips
    assert VllmToolParser("vllm:stand_in", Marked(), TOOLS).needs_special_tokens is not skips


def test_a_parser_that_does_not_fit_is_named(parser: type[Parser]) -> None:
    with pytest.raises(UpstreamRejected, match=r"vllm:other does not work with this model: no other"):
        VllmToolParser("vllm:other", Marked(), TOOLS)


def test_a_tokenizer_without_offsets_provides_tokens_alone(parser: type[Parser]) -> None:
    class Slow(Marked):
        is_fast = False

    parser.script = [delta("ab")]
    reader = VllmToolParser("vllm:stand_in", Slow(), [])
    assert reader.feed("ab") == [PlainText("ab")]
    assert reader._parser.seen == [("ab", [97, 98])]
