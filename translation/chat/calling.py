"""What a chat message with calls has beside them, for upstreams that refuse it without."""

from typing import Final

from translation.json_types import Json
from translation.profile import Profile

_FIELDS: Final = {"none": "reasoning_content", "think_tags": "reasoning_content", "reasoning_details": "reasoning"}
"""How reasoning is replayed -> the field an empty one is said in; elsewhere they are the same."""

_PLACEHOLDER: Final = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""https://ai.google.dev/gemini-api/docs/thought-signatures#faqs"""


def completed(message: Json, profile: Profile) -> Json:
    """An assistant message as the profile wants one that has calls; the same object where nothing is missing."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    added: Json = {}
    if profile.empty_reasoning:
        added[_FIELDS.get(profile.replay_reasoning, profile.replay_reasoning)] = ""
    if profile.call_signatures == "placeholder" and "extra_content" not in calls[0]:
        # Of parallel calls only the first is signed.
        message = {**message, "tool_calls": [{**calls[0], "extra_content": _PLACEHOLDER}, *calls[1:]]}
    return {**added, **message} if added else message
