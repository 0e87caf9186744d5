"""The excerpts of a page that the functions show: where a text is found, and what it costs to look for it."""

import threading
from typing import Any, Final, SupportsIndex

import pytest

from gateway.tools.web_search.function_shape import FunctionShape
from gateway.tools.web_search.page_text import WebPage
from gateway.tools.web_search.shape import TextBounds
from tests.own_process import measuring_cost
from translation.hosted.citations.citation_table import CitationTable

URL: Final = "https://c.example/rain"
ABSENT: Final = "is not on this page"


async def find(pattern: Any, text: str, *, is_whole: bool = True) -> str:
    """Returns what the model reads of a page in which it looks for a text."""
    shape = FunctionShape(CitationTable(), TextBounds(excerpt_chars=1000, page_chars=50_000))
    asked = shape.read_call("find_in_page", {"url": URL, "pattern": pattern})
    shown = await shape.show_page(asked, WebPage(URL, "C", text, is_whole))
    return shown.text.split("\n\n", 1)[1].split("\n", 1)[1]


@pytest.mark.parametrize(
    ("pattern", "text", "excerpts"),
    [
        pytest.param("rain", "It rains.", ["It rains."], id="a part of a word"),
        pytest.param("RAIN", "it rains", ["it rains"], id="the pattern has capitals"),
        pytest.param("rain", "IT RAINS", ["IT RAINS"], id="the page has capitals"),
        pytest.param("a.b*", "axb a.b*", ["axb a.b*"], id="signs of patterns are themselves"),
        pytest.param("in ROME", "İİİ Rain in Rome", ["İİİ Rain in Rome"], id="a capital whose small form is longer"),
        pytest.param("İstanbul", "in istanbul", ["in istanbul"], id="a pattern whose small form is longer"),
        pytest.param("straße", "Die STRAẞE", ["Die STRAẞE"], id="a capital that is rarely used"),
        pytest.param("ΟΔΟΣ", "οδοσα", ["οδοσα"], id="a sigma that ends the pattern alone"),
        pytest.param("οδοσ", "ΟΔΟΣ", ["ΟΔΟΣ"], id="a sigma that ends the page"),
        pytest.param(
            "x", f"x{'-' * 300}X", [f"x{'-' * 200}", f"{'-' * 200}X"], id="two excerpts, with what is around each"
        ),
        pytest.param("x", "x" + "-" * 199 + "x", [f"x{'-' * 199}x"], id="the second is in the excerpt of the first"),
        pytest.param("x", "x" * 201 + "-" * 99 + "x", ["x" * 201, "x" * 101 + "-" * 99 + "x"], id="runs"),
    ],
)
async def test_a_text_is_found_whatever_its_case(pattern: str, text: str, excerpts: list[str]) -> None:
    assert await find(pattern, text) == "\n\n".join(f"… {each} …" for each in excerpts)


async def test_there_are_so_many_excerpts_at_most() -> None:
    assert (await find("x", "x" * 10_000)).count("…") == 10


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("snow", "It rains.", id="another text"),
        pytest.param("", "It rains.", id="an empty text"),
        pytest.param("", "", id="an empty text in an empty page"),
        pytest.param(None, "It rains.", id="null"),
        pytest.param("  ", "It  rains.", id="blanks"),
        pytest.param("\n", "It\nrains.", id="a line break"),
        pytest.param("ss", "Straße", id="another spelling"),
        pytest.param("x" * 300, "x" * 299, id="a text that is longer than the page"),
    ],
)
@pytest.mark.parametrize("is_whole", [True, False])
async def test_a_text_that_is_not_there_is_said_to_be_absent(pattern: Any, text: str, is_whole: bool) -> None:
    cut = "" if is_whole else " in the part of the page that was read"
    assert await find(pattern, text, is_whole=is_whole) == f"[{(pattern or '')[:200]!r} {ABSENT}{cut}.]"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("a " * 15_000 + "b", "a " * 450_000, id="words"),
        pytest.param("a" * 30_000 + "b", "a" * 900_000, id="letters"),
        pytest.param("b" + "a" * 30_000, "a" * 900_000, id="letters behind another one"),
        pytest.param("ß" * 30_000 + "b", "ß" * 900_000, id="letters that have no capital of one character"),
        pytest.param("İ" * 30_000 + "b", "İ" * 900_000, id="letters whose small form is longer"),
    ],
)
async def test_a_long_text_costs_no_more_than_the_page(pattern: str, text: str) -> None:
    """The product of both lengths would be minutes."""
    with measuring_cost() as costs:
        assert ABSENT in await find(pattern, text)
    assert costs[0].processor_s < 10


async def test_a_page_is_searched_in_a_thread() -> None:
    threads: list[threading.Thread] = []

    class WatchedText(str):
        __slots__ = ()

        def __getitem__(self, key: SupportsIndex | slice) -> str:
            threads.append(threading.current_thread())
            return super().__getitem__(key)

    assert "rain" in await find("rain", WatchedText("It rains. " * 100_000))
    assert threads
    assert threading.main_thread() not in threads
