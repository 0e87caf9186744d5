"""Numbers of tool data keep their digits, and all others are what orjson makes of them."""

import orjson
import pytest

from translation.exact_numbers import has_exact_numbers, parse_tool_data, parse_with_tool_data

BIG = "12345678901234567890123"
LONG = "0.12345678901234567890123"
NUMBERS = [BIG, f"-{BIG}", LONG, "1.00000000000000000001e5", "18446744073709551616", "-9223372036854775809"]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_of_tool_data_are_written_as_they_were(number: str) -> None:
    text = f'{{"a":[{number},{{"b":{number}}}],"c":1}}'
    assert orjson.dumps(parse_tool_data(text)).decode() == text


@pytest.mark.parametrize("key", ["args", "arguments", "input", "functionResponse"])
@pytest.mark.parametrize("gap", ["", " "])
def test_objects_of_tools_are_known_by_their_keys(key: str, gap: str) -> None:
    data = f'{{"t":{LONG},"list":[{{"{key}":{gap}{{"wei":{BIG}}}}}]}}'.encode()
    parsed = parse_with_tool_data(data)
    assert orjson.dumps(parsed["list"]).decode() == f'[{{"{key}":{{"wei":{BIG}}}}}]'
    assert parsed["t"] == float(LONG)


@pytest.mark.parametrize(
    "text",
    ['{"a":1}', '{"id":"12345678901234567890123"}', '{"t":1764280000123456789,"p":0.30000000000000004}', "[]", '"a"'],
)
def test_other_values_are_parsed_as_always(text: str) -> None:
    assert parse_tool_data(text) == parse_with_tool_data(text.encode()) == orjson.loads(text)


@pytest.mark.parametrize(
    "text", ["", "{", '{"a":NaN}', '{"arguments":{"a":Infinity}}', '{"input":{"a":01234567890123456}}']
)
def test_what_is_no_json_is_refused(text: str) -> None:
    for parse in (parse_tool_data, lambda text: parse_with_tool_data(text.encode())):
        with pytest.raises(orjson.JSONDecodeError):
            parse(text)


def test_deep_data_is_parsed_without_its_digits() -> None:
    text = '{"a":' * 900 + BIG + "}" * 900
    assert parse_tool_data(text) == orjson.loads(text)


@pytest.mark.parametrize(
    ("number", "is_long"),
    [("9" * 15, False), ("9" * 16, True), ("0." + "1" * 13, False), ("0." + "1" * 14, True), ("1e" + "1" * 15, False)],
)
def test_numbers_of_sixteen_digits_may_be_long(number: str, is_long: bool) -> None:
    assert has_exact_numbers(f'{{"input": {{"a": {number}}}}}'.encode()) == is_long
    assert not has_exact_numbers(f'{{"inputs": {{"a": {number}}}}}'.encode())


@pytest.mark.parametrize("offset", range(10))
def test_long_numbers_are_found_wherever_they_begin(offset: int) -> None:
    assert has_exact_numbers(b'{"input": {%b"a": %b}}' % (b" " * offset, b"9" * 16))


def test_points_in_a_row_are_no_number() -> None:
    assert not has_exact_numbers(b'{"input": {"a": "................"}}')


class SearchedBytes(bytes):
    """Bytes that record what is searched in them."""

    def __init__(self, _: bytes) -> None:
        self.searches: list[bytes] = []

    def count(self, part: bytes) -> int:  # type: ignore[override]  # so it is called
        self.searches.append(part)
        return super().count(part)


@pytest.mark.parametrize(
    "value", ["1764280000", "1764280000123", "176428000012345", "2026-11-27T08:01:02.123456Z", "deadbeef0123456789"]
)
def test_a_body_with_shorter_numbers_is_not_searched_for_keys(value: str) -> None:
    body = SearchedBytes(orjson.dumps([{"at": value, "text": "a word"}] * 100))
    assert not has_exact_numbers(body)
    assert body.searches == []
