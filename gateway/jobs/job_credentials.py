"""Credentials of a background response's tools: sealed in the row of its job, which is deleted when it ends.

Only keys of the configuration seal them. A key from the same database would protect nothing.
"""

from typing import Final

import orjson

from gateway.errors import CredentialsNotStored
from gateway.sealing.sealer import Sealer, UnsealFailed
from gateway.state.values import Job
from translation.representation.json_types import Json
from translation.tools.credentials import remove_body_credentials, remove_credentials

_CONTEXT: Final = "job"
"""Part of the associated data, so that no other sealed text of the owner can take this one's place."""


class JobCredentials:
    """Seals the tools of requests for one owner and one response, and restores them."""

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        self._sealer = Sealer(keys)

    def store_request(self, request: Json, owner: str, response_id: str, *, has_credentials: bool) -> Json:
        """Returns the fields of a job for its request, without unsealed credentials.

        `has_credentials` says whether the request carries any. `bound`: it needs credentials that are not stored, so
        that no other replica can run it.
        """
        if not has_credentials:
            return {"asked": request, "bound": False}
        sealed = self.seal(request, owner, response_id)
        labels = list_credential_labels(request)
        stored = remove_body_credentials(request)
        return {"asked": stored, "bound": sealed is None, "sealed": sealed, "locked": labels}

    def load_request(self, job: Job) -> tuple[Json, frozenset[str]]:
        """Returns the request of a job, and the labels of the servers whose credentials cannot be unsealed.

        Raises CredentialsNotStored if they were not stored.
        """
        if job.request.get("bound"):
            raise CredentialsNotStored
        body, sealed = job.request["asked"], job.request.get("sealed")
        if sealed is None:
            return body, frozenset()
        try:
            return self.restore(body, sealed, job.owner, job.response_id), frozenset()
        except UnsealFailed:
            return body, frozenset(job.request["locked"])

    def seal(self, request: Json, owner: str, response_id: str) -> str | None:
        """Returns the sealed tools of a request and of its input items; None without a configured key."""
        input_value = request.get("input")
        items = input_value if isinstance(input_value, list) else []
        tools = {
            "tools": request.get("tools"),
            "items": {str(index): item["tools"] for index, item in enumerate(items) if "tools" in item},
        }
        return self._sealer.seal(orjson.dumps(tools), _associated(owner, response_id))

    def restore(self, request: Json, sealed: str, owner: str, response_id: str) -> Json:
        """Returns the request with its original tools. Raises UnsealFailed if no key of this process unseals them."""
        tools: Json = orjson.loads(self._sealer.unseal(sealed, _associated(owner, response_id)))
        restored = {**request, "tools": tools["tools"]}
        if tools["items"]:
            places = tools["items"]
            restored["input"] = [
                {**item, "tools": places[str(index)]} if str(index) in places else item
                for index, item in enumerate(request["input"])
            ]
        return restored


def list_credential_labels(request: Json) -> list[str]:
    """Returns the labels of the servers in the tools of a request that carry credentials."""
    tools = request.get("tools") or []
    return [
        tool["server_label"] for tool in tools if tool.get("type") == "mcp" and remove_credentials([tool]) != [tool]
    ]


def _associated(owner: str, response_id: str) -> str:
    return f"{_CONTEXT}.{response_id}.{owner}"
