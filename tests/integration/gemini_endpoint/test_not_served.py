"""What is not served of Gemini's API: errors in its form, and never a reply in another form than was asked for."""

import pytest

from tests.integration.gemini_endpoint.test_over_chat import gateway, post

NOT_SERVED = {
    "an upload": ("POST", "/upload/v1beta/files"),
    "files": ("GET", "/v1beta/files"),
    "a cache": ("POST", "/v1beta/cachedContents"),
    "a cache of the newer version": ("POST", "/v1/cachedContents"),
    "a batch": ("POST", "/v1/models/org/m:8b:batchGenerateContent"),
    "a deletion": ("DELETE", "/v1/models/org/m:8b"),
}


@pytest.mark.parametrize(("method", "path"), NOT_SERVED.values(), ids=NOT_SERVED)
async def test_what_is_not_served_is_an_error_of_the_api(method: str, path: str) -> None:
    async with gateway() as (client, _):
        url = str(client.base_url).removesuffix("/v1beta/") + path
        reply = await client.request(method, url, headers={"x-goog-api-client": "google-genai-sdk"})
    error = reply.json()["error"]
    assert (error["code"], error["status"]) in ((404, "NOT_FOUND"), (405, "UNIMPLEMENTED"))
    assert error["code"] == reply.status_code
    assert path in error["message"]


@pytest.mark.parametrize(
    "method",
    [
        "streamGenerateContent?alt=proto",
        "generateContent?alt=proto",
        "generateContent?alt=sse",
        "countTokens?alt=media",
    ],
)
async def test_other_forms_of_a_reply_are_refused(method: str) -> None:
    async with gateway() as (client, _):
        refused = await post(client, {}, method)
    assert refused.status_code == 400
    assert "'alt'" in refused.json()["error"]["message"]
