"""Documents are converted by a parser service of the operator, whatever it does."""

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from gateway.blobs.folder import BlobFolder
from gateway.config.settings import parse_settings
from gateway.config.tool_settings import FileSearchSettings
from gateway.doctor.file_parser import examine_parser
from gateway.files.blob_keeper import BlobKeeper
from gateway.files.stored_files import FileRules, StoredFiles
from gateway.http.forms.form_body import FormPace
from gateway.http.guard import DrainState
from gateway.retrieval.chunks import ChunkSizes
from gateway.retrieval.parsing.parsed_text import UnreadableFile
from gateway.state.file_records import FileQuota, StoredFile
from gateway.state.sql.store import SqlStore
from gateway.state.vector_records import ChunkQuery, NewEntry, NewVectorStore
from gateway.vector_stores import indexer as indexer_module
from gateway.vector_stores.file_parsers import FileParsers
from gateway.vector_stores.indexer import Indexer
from gateway.vector_stores.patient_embedder import IndexingPostponed, Tries
from tests.integration.web_search.web_server import WebReply, WebRequest, WebServer, json_reply, web_server
from tests.polling import read_until, wait_until
from tests.unit.gateway.retrieval.parsing.documents import build_docx, build_pdf, build_zip

CONVERT = "/v1/convert/file"


def convert_to(text: str, status: str = "success", **more: Any) -> WebReply:
    return json_reply({"document": {"filename": "document", "md_content": text, **more}, "status": status})


@pytest.fixture
async def service() -> AsyncIterator[WebServer]:
    async with web_server({CONVERT: convert_to("# As a service\n\nreads it 猫")}) as served:
        yield served


@pytest.fixture
async def parsers() -> AsyncIterator[FileParsers]:
    async with aclosing(FileParsers()) as made:
        yield made


async def read(
    parsers: FileParsers, url: str, content: bytes, name: str = "a.pdf", tries: Tries | None = None, **more: Any
) -> str:
    settings = FileSearchSettings.model_validate({"parser": url, **more})
    text = ""
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        parts = parsers.parse(file.fileno(), name, settings, ChunkSizes(100, 50), tries or Tries(0, 5))
        async with aclosing(parts):
            async for part in parts:
                if isinstance(part, str):
                    text += part
                else:
                    assert all(text[each.start : each.end].strip() for each in part)
    return text


def read_form(request: WebRequest) -> dict[str, tuple[str, bytes]]:
    """Returns the fields of a form: their file names and their values."""
    boundary = request.headers["content-type"].partition("boundary=")[2].encode()
    fields = {}
    for part in request.body.split(b"--" + boundary)[1:-1]:
        head, _, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        found = re.search(r'name="([^"]*)"(?:; filename="([^"]*)")?', head.decode())
        assert found is not None
        fields[found[1]] = (found[2] or "", value.removesuffix(b"\r\n"))
    return fields


SENT = {
    "plan.pdf": (build_pdf("here"), "document.pdf"),
    "of-any-name": (build_docx("here"), "document.docx"),
    "book.epub": (build_zip({"mimetype": b"application/epub+zip"}), "document.epub"),
    "page.html": (b"<html><p>here", "document.html"),
    "photo.PNG": (b"\x89PNG\r\n\x1a\n\0\0", "document.png"),
    "old.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "document.doc"),
    "large.pdf": (build_pdf("here") + b"\n% more" * 100_000, "document.pdf"),
}


@pytest.mark.parametrize("name", SENT)
async def test_a_document_is_sent_whole_and_its_text_comes_back(
    parsers: FileParsers, service: WebServer, name: str
) -> None:
    content, filename = SENT[name]
    assert await read(parsers, service.url, content, name, parser_key="secret") == "# As a service\n\nreads it 猫"
    [request] = service.requests
    form = read_form(request)
    assert form.pop("files") == (filename, content)
    assert form == {
        "to_formats": ("", b"md"),
        "image_export_mode": ("", b"placeholder"),
        "document_timeout": ("", b"60"),
    }
    assert (request.method, request.headers["x-api-key"]) == ("POST", "secret")


NOT_SENT = {
    "a.txt": ("K\xf6ln".encode("cp1252"), "K\xf6ln"),
    "a.csv": (b"a,b", "a,b"),
    "a.json": (b'{"a": 1}', '{\n "a": 1\n}'),
    "code.py": (b"def f(): pass", "def f(): pass"),
    "nul.txt": (b"a\0b", "unsupported_file"),
    "no-name": (b"\x89PNG\r\n\x1a\n\0\0", "unsupported_file"),
    "files.zip": (build_zip({"a.txt": "text"}), "unsupported_file"),
    "not.pdf": (b"plain text", "invalid_file"),
    "empty.pdf": (b"", "invalid_file"),
    "cut.docx": (build_docx("a")[:-30], "invalid_file"),
    "bomb.docx": (build_zip({"word/document.xml": b" " * 100_000_001}), "invalid_file"),
}


@pytest.mark.parametrize("name", NOT_SENT)
async def test_what_is_only_a_text_or_cannot_be_a_document_is_not_sent(
    parsers: FileParsers, service: WebServer, name: str
) -> None:
    content, expected = NOT_SENT[name]
    if expected.endswith("_file"):
        with pytest.raises(UnreadableFile) as fault:
            await read(parsers, service.url, content, name)
        assert fault.value.code == expected
    else:
        assert await read(parsers, service.url, content, name) == expected
    assert not service.requests


FAILED: dict[str, tuple[WebReply, str]] = {
    "status 422": (json_reply({"detail": "no"}, 422), "unsupported_file"),
    "status 415": (WebReply(status=415), "unsupported_file"),
    "status 413": (WebReply(status=413), "invalid_file"),
    "status 401": (json_reply({"detail": "a key"}, 401), "server_error"),
    "status 404": (WebReply(status=404), "server_error"),
    "a redirect": (WebReply(status=302, headers={"location": "/elsewhere"}), "server_error"),
    "failure": (convert_to("", "failure"), "invalid_file"),
    "a part of it": (convert_to("the first pages", "partial_success"), "invalid_file"),
    "no text": (convert_to(" \n"), "unsupported_file"),
    "no JSON": (WebReply(b"<html>busy"), "server_error"),
    "no object": (json_reply([1]), "server_error"),
    "no document": (json_reply({"status": "success"}), "server_error"),
    "no content": (json_reply({"document": {"md_content": None}}), "server_error"),
    "compressed": (WebReply(b"\x1f\x8b", headers={"content-encoding": "gzip"}), "server_error"),
    "too long": (convert_to("word " * 300), "invalid_file"),
    "far too long": (WebReply(b'{"' + b"a" * 1_200_000), "invalid_file"),
}


@pytest.mark.parametrize("case", FAILED)
async def test_a_failure_that_does_not_pass_fails_the_file(parsers: FileParsers, service: WebServer, case: str) -> None:
    service.replies[CONVERT], code = FAILED[case]
    with pytest.raises(UnreadableFile) as fault:
        await read(parsers, service.url, build_pdf("here"), parse_chars=1000)
    assert fault.value.code == code
    assert re.fullmatch(r"[A-Z][^/{}<>]*\.", fault.value.message)


async def test_a_text_in_another_format_is_taken_too(parsers: FileParsers, service: WebServer) -> None:
    service.replies[CONVERT] = json_reply({"document": {"md_content": None, "text_content": "plain 😀"}})
    assert await read(parsers, service.url, build_pdf("here")) == "plain 😀"


PASSING = {
    "status 503": WebReply(status=503),
    "status 500": WebReply(status=500),
    "status 504": WebReply(status=504),
    "status 429": WebReply(status=429),
    "status 408": WebReply(status=408),
    "cut": WebReply(b"{", headers={"content-length": "100"}),
    "silence": WebReply(stalls=True),
}


@pytest.mark.parametrize("case", PASSING)
async def test_a_failure_that_passes_puts_the_file_off(parsers: FileParsers, service: WebServer, case: str) -> None:
    service.replies[CONVERT] = PASSING[case]
    limits: dict[str, Any] = {"parse_s": 1.0} if case == "silence" else {}
    with pytest.raises(IndexingPostponed) as postponed:
        await read(parsers, service.url, build_pdf("here"), tries=Tries(1, 5), **limits)
    assert postponed.value.tries == 2
    with pytest.raises(UnreadableFile) as fault:
        await read(parsers, service.url, build_pdf("here"), tries=Tries(4, 5), **limits)
    assert fault.value.code == "server_error"


async def test_a_service_that_is_away_or_unknown_puts_the_file_off(parsers: FileParsers) -> None:
    for url in ("http://127.0.0.1:1", "http://no-such-host.invalid"):
        with pytest.raises(IndexingPostponed):
            await read(parsers, url, build_pdf("here"))


async def test_the_wait_that_the_service_asks_for_is_kept(parsers: FileParsers, service: WebServer) -> None:
    service.replies[CONVERT] = WebReply(status=503, headers={"retry-after": "77"})
    with pytest.raises(IndexingPostponed) as postponed:
        await read(parsers, service.url, build_pdf("here"))
    assert postponed.value.wait_s == 77


async def test_a_file_waits_for_a_service_that_is_away_and_is_indexed_then(
    store: SqlStore, service: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "_POLL_S", 0.05)
    ready = service.replies[CONVERT]
    service.replies[CONVERT] = WebReply(status=503)
    blobs = BlobFolder(tmp_path / "files")
    files = StoredFiles(
        store.files, blobs, BlobKeeper(store.files, blobs, 60), FileRules(10, FormPace(10, 60)), DrainState()
    )
    await store.vector_stores.create_store("ann", NewVectorStore("vs_1"), most=10)
    content = build_pdf("here")
    await store.files.reserve_blob("ann", "file-a", hold_s=60)
    async with blobs.write_blob("file-a") as blob:
        await blob.write(content)
        await blob.finish()
    file = StoredFile(id="file-a", size=len(content), created_at=1_700_000_000, filename="a.pdf", purpose="assistants")
    await store.files.create_file("ann", file, FileQuota(files=100, size=10**9))
    await store.vector_stores.attach_files("ann", "vs_1", [NewEntry("file-a")], most=100)
    settings = FileSearchSettings(parser=service.url)
    async with Indexer(store.indexing, files, settings, lease_s=60.0).lifespan():
        await wait_until(lambda: service.requests)
        entry = await store.vector_stores.load_entry("ann", "vs_1", "file-a")
        assert entry is not None
        assert (entry.status, entry.error) == ("in_progress", None)
        service.replies[CONVERT] = ready
        await read_until(
            lambda: store.vector_stores.load_entry("ann", "vs_1", "file-a"),
            lambda each: each is not None and each.status == "completed",
        )
    found = await store.vector_stores.search("ann", "vs_1", ChunkQuery([["areads"], ["aread"]], None, 10))
    assert found is not None
    assert found.chunks[0].text == "# As a service\n\nreads it 猫"


EXAMINED: dict[str, tuple[Callable[[WebRequest], WebReply] | WebReply, str, str]] = {
    "sound": (convert_to("# The keys are under\nthe mat."), "pass", "a page of PDF"),
    "away": (WebReply(status=503), "fail", "status 503"),
    "wrong key": (WebReply(status=401), "fail", "status 401"),
    "blind": (convert_to("nothing of it"), "fail", "lost its text"),
}


@pytest.mark.parametrize("case", EXAMINED)
async def test_the_doctor_lets_the_parser_read_a_page(service: WebServer, case: str) -> None:
    service.replies[CONVERT], verdict, detail = EXAMINED[case]
    settings = parse_settings({"tools": {"file_search": {"parser": service.url}}}, environ={})
    diagnosis = await asyncio.to_thread(examine_parser, settings)
    assert diagnosis is not None
    [finding] = diagnosis.findings
    assert (finding.verdict, diagnosis.label) == (verdict, service.url)
    assert detail in finding.detail
    assert bool(finding.advice) == (verdict == "fail")


async def test_the_doctor_reads_a_page_with_markitdown_and_nothing_without_another_parser() -> None:
    settings = parse_settings({"tools": {"file_search": {"parser": "markitdown"}}}, environ={})
    diagnosis = await asyncio.to_thread(examine_parser, settings)
    assert diagnosis is not None
    assert [finding.verdict for finding in diagnosis.findings] == ["pass"]
    assert examine_parser(parse_settings({}, environ={})) is None
    no_store = parse_settings({"store": {"url": None}, "tools": {"file_search": {"parser": "docling"}}}, environ={})
    assert examine_parser(no_store) is None
