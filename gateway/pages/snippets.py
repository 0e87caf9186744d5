"""Example requests for a model that can be pasted into a shell or a Python file."""

import json
import shlex
from typing import Final

KEY_VARIABLE: Final = "GATEWAY_KEY"
"""The environment variable that examples read the client's key from."""


def render_curl(base_url: str, model: str, *, needs_key: bool) -> str:
    """Return a shell command that requests a response. `base_url` is the server's address, without `/v1`."""
    key = f' \\\n  -H "Authorization: Bearer ${KEY_VARIABLE}"' if needs_key else ""
    body = json.dumps({"model": model, "input": "Say hello."}, ensure_ascii=False)
    return f"curl {base_url}/v1/responses{key} \\\n  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"


def render_python(base_url: str, model: str, *, needs_key: bool) -> str:
    """Return a Python program for the package `openai` that prints a response."""
    imports = "import os\n\nfrom openai import OpenAI" if needs_key else "from openai import OpenAI"
    key = f'os.environ["{KEY_VARIABLE}"]' if needs_key else '"none"'
    return (
        f'{imports}\n\nclient = OpenAI(base_url="{base_url}/v1", api_key={key})\n'
        f"response = client.responses.create(model={_quote_python(model)}, input={_quote_python('Say hello.')})\n"
        "print(response.output_text)"
    )


def _quote_python(text: str) -> str:
    # A JSON string is a Python string, too, except for escaped surrogate pairs, which this does not write.
    return json.dumps(text, ensure_ascii=False)
