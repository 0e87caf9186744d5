"""`python -m tests.golden.record_harmony` records replies of llama.cpp's own server with the vocabulary of gpt-oss.

The model writes at random, so each recording is of the first seed with which it writes something of its kind.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx

from tests.integration.engines import llama
from tests.integration.harmony.gpt_oss import write_model
from tests.unit.support.harmony import lower_to_harmony, real
from translation.representation.turn import Turn

Json = dict[str, Any]

HERE = Path(__file__).parent / "harmony"
WORDS: Final = ["analysis", "commentary", "final", "json", " to", "=", ".", " It", " is", " sunny", " 東京", " Zürich"]
SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {"city": {"enum": ["Zürich", "東京 🚀"]}, "days": {"enum": [1, 2]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS: Final[list[Json]] = [{"type": "function", "name": "weather", "parameters": SCHEMA}]
FORM: Final[Json] = {"type": "json_schema", "name": "place", "schema": SCHEMA}
ASKED: Final[dict[str, tuple[Json, Callable[[str, Json], bool]]]] = {
    "call": ({"tools": TOOLS, "tool_choice": "required"}, lambda said, _: "東京" in said),
    "json": ({"text_format": FORM, "thinking": False}, lambda said, _: "東京" in said),
    "text": ({}, lambda said, _: "final<|message|>" in said and said.endswith("<|return|>")),
    "marks-astray": ({}, lambda said, _: said.count("<|message|>") > 3),
    "length": ({"max_output_tokens": 9}, lambda said, last: last["stop_type"] == "limit" and "<|message|>" in said),
}
"""Name -> parameters beside `Hi`, and whether a reply is of that kind, by its text with control tokens and its end."""


def main() -> None:
    marks = real().control_tokens
    likely = {token: 1.0 for word in WORDS for token in real().encode(word)}
    likely |= {marks.channel: 2.0, marks.message: 3.5, marks.end: 2.0, marks.start: 1.0, marks.returns: 1.0}
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder, "gpt-oss.gguf"), likely)
        with llama(Path(folder, "server.log"), Path(folder, "gpt-oss.gguf")) as engine:
            for name, (asked, fits) in ASKED.items():
                _record(engine.url, name, asked, fits)


def _record(url: str, name: str, asked: Json, fits: Callable[[str, Json], bool]) -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    for seed in range(100):
        sampling = {"temperature": 1, "seed": seed}
        turn = Turn(**{"model": "gpt-oss", "items": [item], "max_output_tokens": 120, "sampling": sampling, **asked})
        body = {**lower_to_harmony(turn).body, "stream": False}
        whole = httpx.post(f"{url}/completion", json=body, timeout=60, trust_env=False).raise_for_status()
        reply = real().decode(whole.json()["tokens"])
        if "\ufffd" not in reply and fits(reply, whole.json()):
            streaming = {**body, "stream": True}
            stream = httpx.post(f"{url}/completion", json=streaming, timeout=60, trust_env=False).raise_for_status()
            (HERE / f"llamacpp-{name}.json").write_bytes(whole.content + b"\n")
            (HERE / f"llamacpp-{name}.sse").write_bytes(stream.content)
            return
    raise RuntimeError(f"no seed wrote {name}")


if __name__ == "__main__":
    main()
