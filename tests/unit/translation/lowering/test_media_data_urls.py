"""translation/lowering/media.py"""

import pytest

from translation.errors import InvalidRequest
from translation.lowering.media import Base64Media, parse_media_data_url, parse_text_data_url


def test_base64_is_left_as_it_is() -> None:
    assert parse_media_data_url("data:image/PNG;base64,QUJD", "input[0]") == Base64Media("image/png", "QUJD")


def test_percent_encoded_data_becomes_base64() -> None:
    assert parse_media_data_url("DATA:text/plain;charset=utf-8,a%20b", "input[0]") == Base64Media("text/plain", "YSBi")


@pytest.mark.parametrize("source", ["https://host/a,b.png", "QUJD", "data:image/png", ""])
def test_other_urls_are_left_to_the_caller(source: str) -> None:
    assert parse_media_data_url(source, "input[0]") is None
    assert parse_text_data_url(source, "input[0]") is None


@pytest.mark.parametrize("source", ["data:,a", "data:;base64,QUJD", "data:image png;base64,QUJD"])
def test_media_of_no_type_are_refused_by_name(source: str) -> None:
    with pytest.raises(InvalidRequest, match="media type") as refusal:
        parse_media_data_url(source, "input[0].image_url")
    assert refusal.value.param == "input[0].image_url"


def test_text_is_decoded_from_every_encoding() -> None:
    assert parse_text_data_url("data:text/markdown;base64,w7w=", "p") == "ü"
    assert parse_text_data_url("data:application/json,%7B%7D", "p") == "{}"
    assert parse_text_data_url("data:image/svg+xml,<svg/>", "p") == "<svg/>"
    assert parse_text_data_url("data:image/png;base64,QUJD", "p") is None


def test_invalid_text_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="UTF-8"):
        parse_text_data_url("data:text/plain;base64,/w==", "p")
