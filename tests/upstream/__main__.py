"""A deterministic upstream to play with by hand: `python -m tests.upstream --port 9099`.

It answers chat completions and Responses with the same short text, or breaks its answers with `--fault NAME`.
"""

import argparse
import asyncio

from .builders import json_reply
from .faults import CHAT, RESPONSES, WIRE_FAULTS, Fault, sound
from .server import ScriptedUpstream


async def serve(port: int, fault: Fault) -> None:
    async with ScriptedUpstream(port) as upstream:
        model = {"id": "scripted-model", "object": "model", "created": 0, "owned_by": "tests"}
        upstream.on("/models", json_reply({"object": "list", "data": [model]}))
        upstream.on("/chat/completions", fault(CHAT))
        upstream.on("/responses", fault(RESPONSES))
        print(f"listening on {upstream.url}", flush=True)  # noqa: T201
        await upstream.serve_forever()


def main() -> None:
    names = "\n  ".join(WIRE_FAULTS)
    parser = argparse.ArgumentParser(
        prog="python -m tests.upstream",
        description=__doc__,
        epilog=f"faults:\n  {names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--fault", choices=WIRE_FAULTS, metavar="NAME", help="what to do wrong, from the list below")
    chosen = parser.parse_args()
    try:
        asyncio.run(serve(chosen.port, WIRE_FAULTS[chosen.fault] if chosen.fault else sound))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
