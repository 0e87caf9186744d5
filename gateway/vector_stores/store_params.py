"""Reads and checks the bodies of requests about vector stores."""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeGuard, cast

from gateway.retrieval.attribute_filters import AttributeFilter, AttributeValue
from gateway.retrieval.chunks import MAX_CHUNK_TOKENS, MIN_CHUNK_TOKENS, ChunkSizes
from gateway.retrieval.search_params import read_filters, read_threshold
from gateway.state.vector_records import NewEntry
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.responses.schema.conversations import validate_update
from translation.validation import refuse_unknown_names

MAX_BATCH_FILES: Final = 2000
MAX_RESULTS: Final = 50
_MAX_ENTRIES: Final = 16
_MAX_KEY_CHARS: Final = 64
_MAX_VALUE_CHARS: Final = 512
_MAX_NAME_CHARS: Final = 512
_MAX_EXPIRY_DAYS: Final = 365
_MAX_QUERY_CHARS: Final = 4096
_MAX_QUERIES: Final = 16
_RANKERS: Final = ("none", "auto", "default-2024-11-15")


class SearchRequest(NamedTuple):
    """A search that a client asks for."""

    queries: list[str]
    accepts: AttributeFilter | None
    limit: int
    threshold: float
    has_rewrite: bool
    """Whether the client asked for its query to be rewritten. The gateway does not do that, and reports it as a
    loss."""


def read_text_field(body: Json, name: str) -> str | None:
    """Returns a text of at most 512 characters, or None if it is absent or null."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > _MAX_NAME_CHARS or "\0" in value:
        raise InvalidRequest(
            f"Invalid value for '{name}': expected a text of at most {_MAX_NAME_CHARS} characters, without U+0000.",
            param=name,
        )
    return value


def read_metadata(value: object) -> Json | None:
    """Returns metadata, which has the limits that it has in every API."""
    validate_update({"metadata": value})
    return cast("Json | None", value)


def read_attributes(value: object, param: str = "attributes") -> Mapping[str, AttributeValue]:
    """Returns the attributes of a file: at most 16 texts, numbers and booleans; none if the value is null."""
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > _MAX_ENTRIES:
        raise InvalidRequest(
            f"Invalid value for '{param}': expected an object of at most {_MAX_ENTRIES} values.", param=param
        )
    for key, entry in value.items():
        _check_key(key, param)
        if isinstance(entry, str) and (len(entry) > _MAX_VALUE_CHARS or "\0" in entry):
            raise InvalidRequest(
                f"Invalid value for '{param}.{key:.80}': expected a text of at most {_MAX_VALUE_CHARS} characters, "
                "without U+0000.",
                param=f"{param}.{key:.80}",
            )
        if not isinstance(entry, str | int | float):
            raise InvalidRequest(
                f"Invalid value for '{param}.{key:.80}': expected a text, a number or a boolean.",
                param=f"{param}.{key:.80}",
            )
    return value


def _check_key(key: str, param: str) -> None:
    if not key or len(key) > _MAX_KEY_CHARS or "\0" in key:
        raise InvalidRequest(
            f"Invalid value for '{param}': its names have 1 to {_MAX_KEY_CHARS} characters, without U+0000.",
            param=param,
        )


def read_expiry_days(value: object) -> int | None:
    """Returns the days of `expires_after`; None if it is null."""
    if value is None:
        return None
    if not isinstance(value, dict) or value.get("anchor") != "last_active_at" or len(value) != 2:
        raise InvalidRequest(
            "Invalid value for 'expires_after': expected an anchor, which is 'last_active_at', and days.",
            param="expires_after",
        )
    days = value.get("days")
    if not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= _MAX_EXPIRY_DAYS:
        raise InvalidRequest(
            f"Invalid value for 'expires_after.days': expected a whole number from 1 to {_MAX_EXPIRY_DAYS}.",
            param="expires_after.days",
        )
    return days


def read_chunk_sizes(value: object, param: str = "chunking_strategy") -> ChunkSizes:
    """Returns the sizes of the chunks of a file. The default, also for `auto`, is 800 tokens, of which 400 overlap."""
    if value is None or value == {"type": "auto"}:
        return ChunkSizes()
    static = value.get("static") if isinstance(value, dict) and value.get("type") == "static" else None
    if not isinstance(static, dict) or len(value) != 2:  # type: ignore[arg-type]
        raise InvalidRequest(
            f"Invalid value for '{param}': expected the type 'auto', or 'static' with static.", param=param
        )
    refuse_unknown_names(static, ("max_chunk_size_tokens", "chunk_overlap_tokens"), f"{param}.static.")
    most, overlap = static.get("max_chunk_size_tokens"), static.get("chunk_overlap_tokens")
    if not _is_whole(most) or not MIN_CHUNK_TOKENS <= most <= MAX_CHUNK_TOKENS:
        raise InvalidRequest(
            f"Invalid value for '{param}': max_chunk_size_tokens is a whole number from {MIN_CHUNK_TOKENS} to "
            f"{MAX_CHUNK_TOKENS}.",
            param=param,
        )
    if not _is_whole(overlap) or not 0 <= overlap <= most // 2:
        raise InvalidRequest(
            f"Invalid value for '{param}': chunk_overlap_tokens is a whole number up to half of max_chunk_size_tokens.",
            param=param,
        )
    return ChunkSizes(most, overlap)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def read_file_id(value: object, param: str) -> str:
    """Returns the id of a file."""
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"Invalid value for '{param}': expected the id of a file.", param=param)
    return value


def read_new_entry(body: Json) -> NewEntry:
    """Returns the file that a request attaches to a store."""
    refuse_unknown_names(body, ("file_id", "attributes", "chunking_strategy"))
    return NewEntry(
        read_file_id(body.get("file_id"), "file_id"),
        read_chunk_sizes(body.get("chunking_strategy")),
        read_attributes(body.get("attributes")),
    )


def read_file_ids(value: object, sizes: ChunkSizes, attributes: Mapping[str, AttributeValue]) -> list[NewEntry]:
    """Returns the files of a list of ids. All get the same sizes of chunks and the same attributes."""
    if not isinstance(value, list) or len(value) > MAX_BATCH_FILES:
        raise InvalidRequest(
            f"Invalid value for 'file_ids': expected a list of at most {MAX_BATCH_FILES} ids.", param="file_ids"
        )
    return [NewEntry(read_file_id(file_id, f"file_ids[{i}]"), sizes, attributes) for i, file_id in enumerate(value)]


def read_batch(body: Json) -> list[NewEntry]:
    """Returns the files of a batch: of `file_ids`, or of `files`."""
    refuse_unknown_names(body, ("file_ids", "files", "attributes", "chunking_strategy"))
    file_ids, described = body.get("file_ids"), body.get("files")
    if (file_ids is None) == (described is None):
        raise InvalidRequest("Send either 'file_ids' or 'files'.", param="file_ids")
    if described is None:
        entries = read_file_ids(
            file_ids, read_chunk_sizes(body.get("chunking_strategy")), read_attributes(body.get("attributes"))
        )
    else:
        for name in ("attributes", "chunking_strategy"):
            if body.get(name) is not None:
                raise InvalidRequest(f"'{name}' belongs to each of 'files' here.", param=name)
        entries = _read_described_files(described)
    if not entries:
        raise InvalidRequest("A batch has at least one file.", param="files" if file_ids is None else "file_ids")
    return entries


def _read_described_files(value: object) -> list[NewEntry]:
    if not isinstance(value, list) or len(value) > MAX_BATCH_FILES:
        raise InvalidRequest(
            f"Invalid value for 'files': expected a list of at most {MAX_BATCH_FILES} files.", param="files"
        )
    entries = []
    for i, described in enumerate(value):
        if not isinstance(described, dict):
            raise InvalidRequest(f"Invalid value for 'files[{i}]': expected an object.", param=f"files[{i}]")
        refuse_unknown_names(described, ("file_id", "attributes", "chunking_strategy"), f"files[{i}].")
        entries.append(
            NewEntry(
                read_file_id(described.get("file_id"), f"files[{i}].file_id"),
                read_chunk_sizes(described.get("chunking_strategy"), f"files[{i}].chunking_strategy"),
                read_attributes(described.get("attributes"), f"files[{i}].attributes"),
            )
        )
    return entries


def read_search(body: Json) -> SearchRequest:
    """Returns what a search asks for. Raises InvalidRequest."""
    refuse_unknown_names(body, ("query", "filters", "max_num_results", "ranking_options", "rewrite_query"))
    queries = _read_queries(body.get("query"))
    limit = body.get("max_num_results", 10)
    if not _is_whole(limit) or not 1 <= limit <= MAX_RESULTS:
        raise InvalidRequest(
            f"Invalid value for 'max_num_results': expected a whole number from 1 to {MAX_RESULTS}.",
            param="max_num_results",
        )
    rewrites = body.get("rewrite_query")
    if rewrites is not None and not isinstance(rewrites, bool):
        raise InvalidRequest("Invalid value for 'rewrite_query': expected a boolean.", param="rewrite_query")
    return SearchRequest(
        queries,
        read_filters(body.get("filters"), "filters"),
        limit,
        read_threshold(body.get("ranking_options"), "ranking_options", _RANKERS),
        rewrites is True,
    )


def _read_queries(value: object) -> list[str]:
    queries = [value] if isinstance(value, str) else value
    if not isinstance(queries, list) or not 1 <= len(queries) <= _MAX_QUERIES:
        raise InvalidRequest(
            f"Invalid value for 'query': expected a text, or a list of 1 to {_MAX_QUERIES} texts.", param="query"
        )
    for query in queries:
        if not isinstance(query, str) or not query or len(query) > _MAX_QUERY_CHARS:
            raise InvalidRequest(
                f"Invalid value for 'query': expected texts of 1 to {_MAX_QUERY_CHARS} characters.", param="query"
            )
    return queries
