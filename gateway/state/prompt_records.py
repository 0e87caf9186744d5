"""The values and the protocol of stored prompts: texts with variables, in versions.

Every read and write names an owner: a prompt of another owner reads as unknown.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from gateway.state.values import Page, PageRequest
from translation.representation.json_types import Json


class PromptQuota(NamedTuple):
    """The most prompts of an owner, and the most versions of one prompt."""

    prompts: int
    versions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPrompt:
    """One version of a prompt. `content` is what its client wrote. Times are epoch seconds."""

    id: str
    version: int
    default_version: int
    created_at: int
    content: Json

    def render(self) -> Json:
        """Returns the prompt object of the API."""
        return {
            "id": self.id,
            "object": "prompt",
            "created_at": self.created_at,
            "version": str(self.version),
            "default_version": str(self.default_version),
            "is_default": self.version == self.default_version,
            **self.content,
        }


class PromptStore(Protocol):
    """Stores prompts. Methods return None for a prompt, or a version of it, that is unknown."""

    async def create_prompt(self, owner: str, prompt_id: str, content: Json, quota: PromptQuota) -> StoredPrompt:
        """Stores the first version of a prompt. Raises StorageQuotaExceeded."""
        ...

    async def add_prompt_version(
        self, owner: str, prompt_id: str, content: Json, quota: PromptQuota
    ) -> StoredPrompt | None:
        """Stores a new version, which does not become the default. Raises StorageQuotaExceeded."""
        ...

    async def load_prompt(self, owner: str, prompt_id: str, version: int | None = None) -> StoredPrompt | None:
        """Returns a version of a prompt, by default its default version."""
        ...

    async def set_default_version(self, owner: str, prompt_id: str, version: int) -> StoredPrompt | None: ...

    async def list_prompts(self, owner: str, page: PageRequest) -> Page:
        """Returns the default versions of prompts, by their creation. Raises UnknownCursor."""
        ...

    async def list_prompt_versions(self, owner: str, prompt_id: str, page: PageRequest) -> Page | None:
        """Returns versions of a prompt, by their numbers, which are cursors too. Raises UnknownCursor."""
        ...

    async def delete_prompt(self, owner: str, prompt_id: str) -> bool:
        """Deletes a prompt with its versions. Returns whether there was one."""
        ...
