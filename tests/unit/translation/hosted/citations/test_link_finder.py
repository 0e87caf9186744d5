"""Links of Markdown: how long they may be, and what it costs to look for them."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from translation.hosted.citations.citables import CitablePage
from translation.hosted.citations.citation_table import CitationTable
from translation.hosted.citations.link_finder import LinkFinder

SHORT = "https://a.example/x"


def find(text: str, url: str, piece_chars: int) -> list[str]:
    """Returns the links to a page, as the text has them."""
    table = CitationTable()
    table.add(CitablePage(url, "A"))
    finder = LinkFinder(table)
    pieces = [text[start : start + piece_chars] for start in range(0, len(text), piece_chars)]
    found = [each for piece in pieces for each in finder.feed(piece)] + finder.finish()
    return [text[each["start_index"] : each["end_index"]] for each in found]


@pytest.mark.parametrize("piece_chars", [1, 7, 4000, 1_000_000])
@pytest.mark.parametrize("end", ["", ".", ")", "y" * 5000, f" [b]({SHORT})"], ids=["end", "dot", "two", "long", "more"])
@pytest.mark.parametrize(
    ("chars", "is_found"),
    [(3999, True), (4000, True), (4001, False), (4002, False), (9000, False)],
)
def test_a_url_has_so_many_characters_at_most(chars: int, is_found: bool, end: str, piece_chars: int) -> None:
    url = SHORT.ljust(chars, "y")
    link = f"[a]({url})"
    assert find(f"See {link}{end}", url, piece_chars) == ([link] if is_found else [])


@pytest.mark.parametrize("piece_chars", [1, 7, 4000, 1_000_000])
@pytest.mark.parametrize(
    "before",
    [
        pytest.param("[z](" + "y" * 4000, id="as long as may be"),
        pytest.param("[z](" + "y" * 4001, id="too long"),
        pytest.param("[z](" + "y" * 3999 + ")", id="it ends at the last character"),
        pytest.param("[z](" + "y" * 4000 + ")", id="it ends one character later"),
        pytest.param("[z](" + "y" * 4001 + ")", id="it ends two characters later"),
        pytest.param("[z](" + "y)" * 3000, id="many ends"),
        pytest.param("[z](" * 3000, id="many beginnings"),
        pytest.param("[z](" + "y" * 3999 + "\n", id="a line break at the last character"),
        pytest.param("[z](" + "y" * 4500 + "\n", id="a line break behind the last character"),
    ],
)
def test_a_link_is_found_behind_what_is_none(before: str, piece_chars: int) -> None:
    link = f"[b]({SHORT})"
    assert find(f"{before}{link}.", SHORT, piece_chars) == [link]


@pytest.mark.parametrize("piece_chars", [1, 100, 1_000_000])
@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        (f"[{'x' * 498}]({SHORT})", True),
        (f"[{'x' * 499}]({SHORT})", False),
        (f"[{'[]' * 249}]({SHORT})", True),
        (f"[{'[]' * 250}]({SHORT})", False),
        (f"{'[' * 600}{']' * 99}]({SHORT})", True),
        (f"{'[' * 600}{']' * 300}]({SHORT})", False),
        (f"[\n]({SHORT})", False),
        (f"]]]({SHORT})", False),
        (f"[]]({SHORT})", False),
        (f"[](x [{'y' * 600}\n[]({SHORT})", True),
    ],
)
def test_a_label_has_its_own_brackets_and_so_many_characters_at_most(
    text: str, is_found: bool, piece_chars: int
) -> None:
    assert len(find(f"{'z' * 2000}{text}{'z' * 2000}", SHORT, piece_chars)) == is_found


_WORDS = ["[", "]", "](", "[x](", "(", ")", "\n", "a", f"{SHORT})", f"[a]({SHORT})", "y" * 100, "z" * 490, "w" * 3990]


@given(st.lists(st.sampled_from(_WORDS), max_size=60).map("".join), st.integers(1, 2000))
@settings(max_examples=300, deadline=None)
def test_links_do_not_depend_on_how_a_long_text_is_cut(text: str, piece_chars: int) -> None:
    assert find(text, SHORT, piece_chars) == find(text, SHORT, max(len(text), 1))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[a](" * 100_000, id="links that never end"),
        pytest.param("[a](\n" * 100_000, id="links that a line break ends"),
        pytest.param("[a](x " * 100_000 + ")", id="links that end at the end of the text"),
        pytest.param("[a](" + "x" * 400_000, id="a URL that never ends"),
        pytest.param("[a](x) " * 50_000, id="links to what is not known"),
        pytest.param("](" * 200_000, id="ends of labels without a beginning"),
        pytest.param("](x)" * 100_000, id="ends of links without a beginning"),
        pytest.param("[]](" * 100_000, id="more brackets that close than open"),
        pytest.param("[" * 125_000 + "](" * 125_000, id="brackets in brackets"),
        pytest.param("[[](" * 100_000, id="more brackets that open than close"),
    ],
)
def test_links_of_a_whole_text_cost_no_more_than_the_text(text: str) -> None:
    """Each link by itself would cost as much as the longest one, or as the rest of the text."""
    start = time.thread_time()
    assert find(text, SHORT, len(text)) == []
    assert time.thread_time() - start < 5
