"""Files of Gemini's Files API: its models read them, and nobody else."""

import pytest

from tests.unit.gateway.planning.every_field.upstream_requests import lower_for_upstream
from translation.errors import Unrepresentable
from translation.representation.json_types import Json

FILE = "https://generativelanguage.googleapis.com/v1beta/files/abc"


def request_with(media_type: str) -> Json:
    part = {"fileData": {"mimeType": media_type, "fileUri": FILE}}
    return {"contents": [{"role": "user", "parts": [part, {"text": "What is it?"}]}]}


@pytest.mark.parametrize("media_type", ["image/png", "application/pdf"])
@pytest.mark.parametrize("upstream", ["chat", "responses", "anthropic", "ollama"])
def test_a_file_at_google_is_refused_before_other_upstreams_fetch_it(upstream: str, media_type: str) -> None:
    with pytest.raises(Unrepresentable) as refused:
        lower_for_upstream(upstream, "gemini", request_with(media_type))
    assert refused.value.param == "contents[0].parts[0].fileData"


@pytest.mark.parametrize("media_type", ["image/png", "application/pdf"])
def test_a_file_at_google_is_read_by_its_own_models(media_type: str) -> None:
    sent = lower_for_upstream("gemini", "gemini", request_with(media_type)).sent
    assert sent["contents"][0]["parts"][0] == {"fileData": {"fileUri": FILE}}
