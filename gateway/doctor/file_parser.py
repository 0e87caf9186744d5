"""Examines the parser of files that the configuration names: lets it read a page of PDF."""

import asyncio
import tempfile
import time
from contextlib import aclosing
from typing import Final

from gateway.config.settings import Settings
from gateway.doctor.checks.verdicts import Finding
from gateway.doctor.part_diagnosis import PartDiagnosis
from gateway.retrieval.chunks import ChunkSizes
from gateway.retrieval.parsing.parsed_text import UnreadableFile
from gateway.vector_stores.file_parsers import FileParsers
from gateway.vector_stores.parser_service import ParserServiceAway
from gateway.vector_stores.patient_embedder import Tries

_KIND: Final = "Parser of files"
_CHECK: Final = "read"
_WORDS: Final = "The keys are under the mat."

_OBJECTS: Final = (
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Count 1/Kids[5 0 R]>>",
    "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    f"<</Length {len(_WORDS) + 31}>>stream\nBT /F1 24 Tf 72 720 Td ({_WORDS}) Tj ET\nendstream",
    "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents 4 0 R>>",
)


def examine_parser(settings: Settings) -> PartDiagnosis | None:
    """Returns a diagnosis of the parser; None if files are read by the gateway itself, or there is no store."""
    own = settings.tools.file_search
    if own.parser == "builtin" or settings.store.url is None:
        return None
    return PartDiagnosis(own.parser, [asyncio.run(_examine(settings))], kind=_KIND)


async def _examine(settings: Settings) -> Finding:
    began = time.monotonic()
    try:
        text = await _read_page(settings)
    except UnreadableFile as fault:
        cause = fault.__context__
        if isinstance(cause, ParserServiceAway):
            return Finding(
                check=_CHECK,
                verdict="fail",
                detail=cause.why,
                advice="Start the service at tools.file_search.parser, or correct the address; files wait meanwhile.",
            )
        advice = "Read the log of the service, and check tools.file_search.parser_key_env."
        return Finding(check=_CHECK, verdict="fail", detail=fault.message, advice=advice)
    if _WORDS not in text:
        advice = "Check that the parser reads PDF files: it left out the words of one."
        return Finding(check=_CHECK, verdict="fail", detail="a PDF lost its text", advice=advice)
    return Finding(check=_CHECK, verdict="pass", detail="a page of PDF", seconds=time.monotonic() - began)


async def _read_page(settings: Settings) -> str:
    own = settings.tools.file_search
    pieces: list[str] = []
    async with aclosing(FileParsers()) as parsers:
        with tempfile.TemporaryFile() as file:
            file.write(_build_page())
            file.seek(0)
            # One try, so that the failure of a service is told at once.
            parts = parsers.parse(file.fileno(), "page.pdf", own, ChunkSizes(), Tries(0, 1))
            async with aclosing(parts):
                async for part in parts:
                    pieces += [part] if isinstance(part, str) else []
    return " ".join("".join(pieces).split())


def _build_page() -> bytes:
    out = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(_OBJECTS, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 6\n0000000000 65535 f \n{table}trailer\n<</Size 6/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + end.encode()
