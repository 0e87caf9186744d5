"""Results that are too long: their first part, and how the model reads the rest."""

from typing import Any

import pytest

from tests.tool_rounds import LoopDriver, call, hosted_tool, text
from translation.hosted.bounds import LoopBounds
from translation.hosted.call_forms import output_text_of
from translation.hosted.result_reader import READ_RESULT, ResultReader
from translation.hosted.tools import ToolCatalogue

LINES = "".join(f"line {number}: {'even' if number % 2 == 0 else 'odd'}\n" for number in range(100))


def reader_of(result: str, max_chars: int = 200) -> ResultReader:
    reader = ResultReader(max_chars)
    reader.cut("mcp_1", result)
    return reader


def read(reader: ResultReader, **arguments: Any) -> str:
    outcome = reader.read({"id": "mcp_1", **arguments})
    assert not outcome.failed
    assert outcome.output is not None
    return outcome.output


def test_a_text_within_the_limit_is_whole_and_has_no_further_pages() -> None:
    reader = ResultReader(100)
    assert reader.cut("mcp_1", "x" * 100) == "x" * 100
    assert not reader.has_results


def test_a_long_text_is_cut_in_the_middle_with_a_hint_how_to_read_the_rest() -> None:
    reader = ResultReader(100)
    cut = reader.cut("mcp_1", "a" * 100 + "b" * 100)
    assert reader.has_results
    assert cut.startswith("a" * 90 + "\n[")
    assert cut.endswith("]\n" + "b" * 10)
    assert "100 of 200 characters left out. Read them with read_result, id 'mcp_1', offset 90, or a pattern" in cut
    assert ResultReader(3).cut("mcp_1", "abcdef").startswith("abc\n["), "a tenth of a short limit is nothing"


def test_the_whole_text_can_be_read_by_offsets() -> None:
    reader, whole, offset = reader_of(LINES), "", 0
    while offset < len(LINES):
        head, _, rest = read(reader, offset=offset).partition("\n")
        page, _, _ = rest.partition("\n[Read on")
        assert head == f"[Characters {offset} to {offset + len(page)} of {len(LINES)}]"
        whole += page
        offset += len(page)
    assert whole == LINES
    assert "[Read on with offset 200]" in read(reader)


def test_a_page_has_a_limit_of_its_own() -> None:
    assert len(read(reader_of("x" * 300_000, 100_000))) < 21_000


def test_lines_are_found_by_a_pattern_and_the_rest_of_them_from_an_offset() -> None:
    reader = reader_of(LINES)
    found = read(reader, pattern=r"line \d0: even")
    first, *_, more = found.split("\n")
    assert first == f"[offset {LINES.index('line 10')}] line 10: even"
    assert read(reader, pattern="^line 99").startswith("[offset ")
    assert read(reader, pattern="nothing", offset=10) == "[No line from offset 10 on matches 'nothing']"
    many = read(reader, pattern="odd").split("\n")
    assert many[-1].startswith("[There are more: read on with offset ")
    offset = int(many[-1].removesuffix("]").rpartition(" ")[2])
    assert read(reader, pattern="odd", offset=offset).startswith(f"[offset {offset}] line ")
    assert more.startswith("[offset ")


def test_invalid_expressions_are_searched_literally_and_none_takes_long() -> None:
    reader = reader_of("a" * 5000 + "\nf((x)\n")
    assert read(reader, pattern="f((") == "[offset 5001] f((x)"
    assert read(reader, pattern="^(a+)+$", offset=4000).startswith("[offset 4")
    assert read(reader, pattern="(?=x)").startswith("[No line")


def test_long_lines_are_returned_in_overlapping_pieces() -> None:
    reader = reader_of("x" * 397 + "needle" + "x" * 1000)
    assert read(reader, pattern="needle") == f"[offset 300] {'x' * 97}needle{'x' * 297}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"id": "mcp_2"}, "There is no result 'mcp_2' to read on in. Results: mcp_1"),
        ({"id": "mcp_1", "offset": 100_000}, f"The offset is beyond the end: the result has {len(LINES)} characters"),
    ],
)
def test_unreadable_ranges_are_errors(arguments: Any, message: str) -> None:
    assert output_text_of({"error": reader_of(LINES).read(arguments).error}) == message


def test_without_results_none_can_be_read() -> None:
    assert "Results: none" in output_text_of({"error": ResultReader(10).read({"id": "x"}).error})


def test_the_tool_is_offered_once_a_result_was_cut() -> None:
    driver = LoopDriver(hosted_tool(), bounds=LoopBounds(result_chars=100), own_tools=[READ_RESULT])
    first = driver.run_round(call(), outcome=LINES)
    assert [tool["name"] for tool in first.tools] == ["calc_add"]
    cut_id = driver.output[0]["id"]
    second = driver.run_round(call("read_result", f'{{"id": "{cut_id}", "offset": 90}}', "call_2"), outcome="more")
    assert [tool["name"] for tool in second.tools] == ["calc_add", "read_result"]
    assert f"id '{cut_id}'" in second.items[-1]["output"]
    assert (driver.output[0]["output"], driver.output[1]["name"]) == (LINES, "read_result"), "the client has it all"
    driver.run_round(text("Done."))
    driver.finish()


def test_a_client_with_a_function_of_that_name_keeps_it() -> None:
    catalogue = ToolCatalogue.build([hosted_tool()], ["read_result"], own_tools=[READ_RESULT])
    (name,) = catalogue.own_tools
    assert name.startswith("read_result_")
    assert catalogue.name_of(READ_RESULT.key) == name
    assert catalogue.find("read_result") is None
