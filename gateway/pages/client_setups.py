"""How clients are pointed at the server, in three lines for each, for the home page."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """What a reader writes to use a client. `text` contains the base URL of the page once, before anything that may."""

    kind: str
    title: str
    place: str
    """Where the lines are written."""
    text: str


_SHELL: Final = "in a shell"


def build_client_setups(base_url: str, model: str, key_variable: str | None) -> Sequence[ClientSetup]:
    """Returns the settings of the clients for a model. `key_variable` holds the reader's key; None without keys."""
    key = "none" if key_variable is None else f'"${key_variable}"'
    env_key = "" if key_variable is None else f', env_key="{key_variable}"'
    quoted = shlex.quote(model)
    return (
        ClientSetup(
            "codex",
            "Codex",
            _SHELL,
            f'codex -c \'model_providers.gateway={{name="gateway", base_url="{base_url}/v1"{env_key}}}\' \\\n'
            f"  -c model_provider=gateway \\\n  --model {quoted}",
        ),
        ClientSetup(
            "claude",
            "Claude Code",
            _SHELL,
            f"export ANTHROPIC_BASE_URL={base_url}\nexport ANTHROPIC_AUTH_TOKEN={key} ANTHROPIC_MODEL={quoted}\nclaude",
        ),
        ClientSetup(
            "gemini",
            "Gemini CLI",
            _SHELL,
            f"export GOOGLE_GEMINI_BASE_URL={base_url}\n"
            f"export GEMINI_API_KEY={key}\ngemini --skip-trust --model {quoted}",
        ),
        ClientSetup(
            "ollama",
            "Products for Ollama, such as Home Assistant",
            "in their settings",
            f"Server: {base_url}\nModel: {_to_one_line(model)}\n"
            + ("Key: none" if key_variable is None else "Key: yours, if the product has a field for one"),
        ),
    )


def _to_one_line(text: str) -> str:
    return " ".join(text.split())
