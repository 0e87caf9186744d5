"""gpt-oss's vocabulary for tests, out of the archive in `models/`: as an operator would have put it on the machine."""

import hashlib
import lzma
import tempfile
from functools import cache
from pathlib import Path

from providers.harmony.encoding import VOCABULARY

_ARCHIVE = Path(__file__).parents[1] / "models" / f"{VOCABULARY}.xz"


@cache
def place() -> str:
    """The folder that holds it."""
    packed = _ARCHIVE.read_bytes()
    folder = Path(tempfile.gettempdir()) / f"responses-gateway-{hashlib.sha256(packed).hexdigest()[:16]}"
    if not (folder / VOCABULARY).is_file():
        folder.mkdir(exist_ok=True)
        # Several runs may unpack it at once: each has a file of its own until it is whole.
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as unpacked:
            unpacked.write(lzma.decompress(packed))
        Path(unpacked.name).replace(folder / VOCABULARY)
    return str(folder)
