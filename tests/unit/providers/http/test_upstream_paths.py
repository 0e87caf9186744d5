"""providers/http/upstream.py: paths that hold names of models, which clients write."""

from providers.config import ProviderConfig
from providers.http.upstream import Upstream
from tests.upstream import ScriptedUpstream, json_reply

MORE_THAN_ARE_REMEMBERED = 300


async def test_the_cache_of_paths_is_bounded() -> None:
    async with ScriptedUpstream() as server:
        server.script(json_reply({"totalTokens": 1}))
        upstream = Upstream("up", ProviderConfig(type="gemini", base_url=server.url), server.url)
        for number in range(MORE_THAN_ARE_REMEMBERED):
            assert await upstream.post_json(f"/models/{number}:countTokens", {}) == {"totalTokens": 1}
        remembered = len(upstream._request_templates)
        await upstream.aclose()
        assert [request.path for request in server.requests][-1] == "/v1/models/299:countTokens"
    assert 0 < remembered < MORE_THAN_ARE_REMEMBERED
