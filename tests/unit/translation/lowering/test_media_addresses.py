"""Addresses of images in a request, which must be addresses."""

from collections.abc import Callable

import pytest

from translation.chat.upstream.lower import lower as lower_to_chat
from translation.errors import InvalidRequest
from translation.gemini.upstream.lower import lower as lower_to_gemini
from translation.lowering.media import require_address
from translation.messages.upstream.lower import lower as lower_to_messages
from translation.ollama.upstream.lower import lower as lower_to_ollama
from translation.representation.profile import DEFAULT_PROFILE, Profile
from translation.representation.turn import LoweredRequest, Turn
from translation.responses.upstream.lower import lower as lower_to_responses

ADDRESSES = ("https://e.example/cat.png", "HTTP://e/x", "data:image/png;base64,AA==", "gs://bucket/cat", "data:,x")
NO_ADDRESSES = ("cat.png", "/tmp/cat.png", "iVBORw0KGgo=", "https://", "https:/example.com/x", "data:image/png", " ")


def test_addresses_have_a_scheme_and_a_place() -> None:
    for address in ADDRESSES:
        require_address(address, "p")
    for no_address in NO_ADDRESSES:
        with pytest.raises(InvalidRequest, match="not the address of an image") as refused:
            require_address(no_address, "p")
        assert refused.value.param == "p"


LOWERERS: dict[str, Callable[[Turn, Profile], LoweredRequest]] = {
    "chat": lower_to_chat,
    "responses": lower_to_responses,
    "messages": lower_to_messages,
    "gemini": lower_to_gemini,
    "ollama": lower_to_ollama,
}


@pytest.mark.parametrize("dialect", LOWERERS)
@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_no_upstream_gets_an_image_that_is_no_address(dialect: str, address: str) -> None:
    part = {"type": "input_image", "image_url": address, "detail": "auto"}
    turn = Turn("m", [{"type": "message", "role": "user", "content": [part]}])
    with pytest.raises(InvalidRequest) as refused:
        LOWERERS[dialect](turn, DEFAULT_PROFILE)
    assert refused.value.param == "input[0].content[0].image_url"


def test_an_image_without_an_address_is_the_upstreams_to_find() -> None:
    part = {"type": "input_image", "file_id": "file_1", "detail": "auto"}
    turn = Turn("m", [{"type": "message", "role": "user", "content": [part]}])
    assert lower_to_responses(turn, DEFAULT_PROFILE).body["input"][0]["content"] == [part]
