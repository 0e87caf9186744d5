"""The tables of the database.

Every primary key of clients' objects starts with the owner, so that no row can be found without one. JSON is stored as
text, exactly as it was written. Times are epoch microseconds of the gateway's clock.
"""

from typing import Final

from sqlalchemy import (
    REAL,
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    false,
)
from sqlalchemy.dialects.postgresql import ARRAY, TSVECTOR
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

_ID_TYPE = String(255)

INPUT_PLACE: Final = 0
OUTPUT_PLACE: Final = 1
"""Values of `items.place`: an item of the request's input, or of the response's output."""

metadata = MetaData(
    naming_convention={"ix": "ix_%(table_name)s_%(column_0_N_name)s", "pk": "pk_%(table_name)s"},
)

responses = Table(
    "responses",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True),
    Column("created_us", BigInteger, nullable=False),
    Column("status", String(32), nullable=False),
    Column("parent_id", _ID_TYPE),
    Column("conversation_id", _ID_TYPE),
    Column("body", Text, nullable=False, comment="The response object with an empty output."),
    Column("background", Boolean, nullable=False),
    Column("logged", Boolean, nullable=False, comment="Its events are in the log."),
    Column("losses", Text, comment="What the request lost on its way, as the reply's header had it."),
    Column("upstream", Text, comment="The upstream that answered, as the reply's header names it."),
    Column("worker", _ID_TYPE, comment="The replica that runs it; null when nobody does."),
    Column("deleted", Boolean, nullable=False, server_default=false(), comment="Gone, except as history of others."),
    Index("ix_responses_owner_created_us", "owner", "created_us", "id"),
    Index("ix_responses_parent_id_owner", "parent_id", "owner"),
    Index("ix_responses_worker", "worker"),
    Index("ix_responses_created_us", "created_us"),
)

items = Table(
    "items",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("response_id", _ID_TYPE, primary_key=True),
    Column("place", SmallInteger, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("id", _ID_TYPE, nullable=False),
    Column("body", Text, nullable=False),
    # No index starts with (owner, id): until PostgreSQL has analyzed the table, it would use that index by its owner
    # alone and scan all rows of the owner.
    Index("ix_items_id_owner", "id", "owner"),
)

events = Table(
    "events",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("response_id", _ID_TYPE, primary_key=True),
    Column("first", Integer, primary_key=True, comment="Sequence number of the first event in `frames`."),
    Column("last", Integer, nullable=False),
    Column("frames", LargeBinary, nullable=False),
)

owner_usage = Table(
    "owner_usage",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("log_bytes", BigInteger, nullable=False, comment="Of its event logs; triggers keep it."),
)

jobs = Table(
    "jobs",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("response_id", _ID_TYPE, primary_key=True),
    Column("created_us", BigInteger, nullable=False),
    Column("request", Text, nullable=False),
    Column("worker", _ID_TYPE, comment="Who has it leased; null while nobody does."),
    Column("attempt", Integer, nullable=False),
    Column("progress", Text, comment="How far its loop of a model and tools has come; null before the first round."),
    Index("ix_jobs_created_us", "created_us"),
    Index("ix_jobs_owner_created_us", "owner", "created_us", "response_id", "worker"),
)

NO_POSITION: Final = -1
"""The position of calls of replies that are not stored. No item of an output has it."""

tool_calls = Table(
    "tool_calls",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("response_id", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True, comment="The id of the item."),
    Column("position", Integer, nullable=False, comment="The item's place in the output."),
    Column("state", String(16), nullable=False, comment="intended, started, finished or unknown."),
    Column("repeatable", Boolean, nullable=False, comment="Whether it may be sent again if its outcome is not known."),
    Column("item", Text, comment="The item; null once the response has ended, whose output has it."),
    Column("media", Text, comment="Parts of the result that the item does not have."),
    Column("changed_us", BigInteger, nullable=False),
)
_IS_OPEN = tool_calls.c.position == NO_POSITION
Index("ix_tool_calls_open", tool_calls.c.changed_us, sqlite_where=_IS_OPEN, postgresql_where=_IS_OPEN)

workers = Table(
    "workers",
    metadata,
    Column("id", _ID_TYPE, primary_key=True),
    Column("alive_until_us", BigInteger, nullable=False, comment="By the database's clock."),
)

conversations = Table(
    "conversations",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True),
    Column("created_us", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Column("used_us", BigInteger, nullable=False, comment="When something was last added: its age for retention."),
    Column("next_position", Integer, nullable=False, comment="Of the next item; raising it locks the row."),
    Index("ix_conversations_owner_created_us", "owner", "created_us", "id"),
    Index("ix_conversations_used_us", "used_us"),
)

conversation_items = Table(
    "conversation_items",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("conversation_id", _ID_TYPE, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("id", _ID_TYPE, nullable=False),
    Column("body", Text, nullable=False),
    Index("ix_conversation_items_owner_id", "owner", "id"),
)

completions = Table(
    "completions",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True),
    Column("created_us", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("messages", Text, nullable=False),
    Column("losses", Text, comment="What the request lost on its way, as the reply's header had it."),
    Column("upstream", Text, comment="The upstream that answered, as the reply's header names it."),
    Index("ix_completions_owner_created_us", "owner", "created_us", "id"),
    Index("ix_completions_created_us", "created_us"),
)

completion_metadata = Table(
    "completion_metadata",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("completion_id", _ID_TYPE, primary_key=True),
    Column("entry", String(64), primary_key=True, comment="Hash of key and value: what lists are filtered by."),
    Index("ix_completion_metadata_owner_entry", "owner", "entry"),
)

sealing_keys = Table(
    "sealing_keys",
    metadata,
    Column("id", _ID_TYPE, primary_key=True),
    Column("key", LargeBinary, nullable=False),
)

approvals = Table(
    "approvals",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True, comment="Of the item `mcp_approval_request`."),
    Column("created_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
    Column("response_id", _ID_TYPE, nullable=False, comment="The response that asks for it."),
    Column("server_label", Text, nullable=False),
    Column("tool_name", Text, nullable=False),
    Column("origin", Text, nullable=False, comment="Where the server is, without path and query."),
    Column("arguments_digest", String(64), nullable=False),
    Column("definition_digest", String(64), nullable=False, comment="Of address, name, description and schema."),
    Column("state", String(16), nullable=False, comment="open, used, denied or void."),
    Column("answered_by", _ID_TYPE, comment="The response that used or denied it."),
    Column("sealed_input", Text, comment="What the call asks the user for, sealed; null for an approval."),
    Index("ix_approvals_response_id_owner", "response_id", "owner"),
    Index("ix_approvals_expires_us", "expires_us"),
)

mcp_grants = Table(
    "mcp_grants",
    metadata,
    Column("id", _ID_TYPE, primary_key=True, comment="The name of the MCP server in the configuration."),
    Column("sealed", Text, nullable=False, comment="The tokens, encrypted."),
    Column("version", BigInteger, nullable=False, comment="Increases with each change of the tokens."),
    Column("locked_until_us", BigInteger, comment="Until when one replica alone may refresh the tokens."),
)

mcp_servers = Table(
    "mcp_servers",
    metadata,
    Column("id", _ID_TYPE, primary_key=True, comment="The label of a server that was added over the API."),
    Column("prefix", _ID_TYPE, comment="That of the names of its tools, in lower case; null if they have none."),
    Column("settings", Text, nullable=False, comment="As in the configuration, without credentials."),
    Column("sealed", Text, comment="The settings with credentials, encrypted; null if there are none."),
    Column("added_by", _ID_TYPE, nullable=False, comment="The name of the key."),
    Column("changed_us", BigInteger, nullable=False),
    Index("ix_mcp_servers_prefix", "prefix", unique=True),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True, comment="The key, as the client wrote it."),
    Column("created_us", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False, comment="Of the body of the request."),
    Column("response_id", _ID_TYPE, nullable=False, comment="The response to the request."),
    Index("ix_idempotency_keys_created_us", "created_us"),
)

files = Table(
    "files",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True, comment="Also the name of its bytes in the file storage."),
    Column("number", BigInteger, nullable=False, comment="Counts the files of the owner: the order of lists."),
    Column("created_us", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("filename", Text, nullable=False),
    Column("purpose", String(32), nullable=False),
    Column("expires_us", BigInteger),
    Index("ix_files_owner_number", "owner", "number", unique=True),
)
_EXPIRES = files.c.expires_us.is_not(None)
Index("ix_files_expires_us", files.c.expires_us, sqlite_where=_EXPIRES, postgresql_where=_EXPIRES)

file_usage = Table(
    "file_usage",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("files", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False, comment="Of its files, and of the parts of its uploads."),
    Column("last_number", BigInteger, nullable=False, comment="Of its newest file; raising it locks the row."),
)

uploads = Table(
    "uploads",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True),
    Column("created_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False, comment="From then on no part is added to it."),
    Column("bytes", BigInteger, nullable=False, comment="Of the whole file, as its client declared them."),
    Column("part_bytes", BigInteger, nullable=False, comment="Of all its parts; raising it locks the row."),
    Column("part_count", Integer, nullable=False),
    Column("filename", Text, nullable=False),
    Column("purpose", String(32), nullable=False),
    Column("file_expires_s", Integer, comment="Seconds from the creation of its file until that expires."),
    Column("status", String(16), nullable=False, comment="pending, completed, cancelled or expired."),
    Column("file_id", _ID_TYPE, comment="The file that it became."),
    Index("ix_uploads_expires_us", "expires_us"),
    Index("ix_uploads_owner_created_us", "owner", "created_us", "id"),
)

upload_parts = Table(
    "upload_parts",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("upload_id", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True, comment="Also the name of its bytes in the file storage."),
    Column("created_us", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Index("ix_upload_parts_owner_id", "owner", "id"),
)

prompts = Table(
    "prompts",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True),
    Column("created_us", BigInteger, nullable=False),
    Column("default_version", Integer, nullable=False),
    Column("last_version", Integer, nullable=False, comment="Of its newest version; raising it locks the row."),
    Index("ix_prompts_owner_created_us", "owner", "created_us", "id"),
)

prompt_versions = Table(
    "prompt_versions",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("prompt_id", _ID_TYPE, primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("created_us", BigInteger, nullable=False),
    Column("body", Text, nullable=False, comment="Its texts with variables, as the client wrote them."),
)

unused_blobs = Table(
    "unused_blobs",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True, comment="Of bytes in the file storage that no file and no part has."),
    Column("created_us", BigInteger, nullable=False),
    Column("remove_after_us", BigInteger, nullable=False, comment="Until then a request may still make a file of it."),
    Index("ix_unused_blobs_remove_after_us", "remove_after_us"),
)

vector_stores = Table(
    "vector_stores",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True),
    Column("number", BigInteger, nullable=False, comment="Counts the stores of the owner: the order of lists."),
    Column("created_us", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("metadata", Text),
    Column("expires_days", Integer),
    Column("used_us", BigInteger, nullable=False, comment="When it was searched or changed last."),
    Column("expires_us", BigInteger, comment="From then on it has expired for good."),
    Column("last_number", BigInteger, nullable=False, comment="Of its newest file; raising it locks the row."),
    Column("swept", Boolean, nullable=False, comment="Expired, and its chunks are removed."),
    Index("ix_vector_stores_owner_number", "owner", "number", unique=True),
    Index("ix_vector_stores_expires_us", "expires_us"),
)

vector_store_usage = Table(
    "vector_store_usage",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("stores", BigInteger, nullable=False),
    Column("last_number", BigInteger, nullable=False, comment="Of its newest store; raising it locks the row."),
)

vector_store_files = Table(
    "vector_store_files",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("store_id", _ID_TYPE, primary_key=True),
    Column("file_id", _ID_TYPE, primary_key=True),
    Column("number", BigInteger, nullable=False, comment="Counts the files of the store: the order of lists."),
    Column("created_us", BigInteger, nullable=False),
    Column("status", String(16), nullable=False, comment="in_progress, completed, failed or cancelled."),
    Column("error_code", String(32)),
    Column("error_message", Text),
    Column("attributes", Text, nullable=False),
    Column("max_tokens", Integer, nullable=False),
    Column("overlap", Integer, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("terms", BigInteger, nullable=False, comment="Of all its chunks."),
    Column("bytes", BigInteger, nullable=False, comment="Of the texts of its chunks."),
    Column("attempt", BigInteger, nullable=False, comment="Of its indexing, whose chunks count; 0 before the first."),
    Column("leased_us", BigInteger, nullable=False, comment="Until then a process indexes it."),
    Column("embedder", _ID_TYPE, comment="The model that made the vectors of its chunks."),
    Column("tries", Integer, nullable=False, server_default="0", comment="How often its indexing was put off."),
    Index("ix_vector_store_files_owner_number", "owner", "store_id", "number", unique=True),
    Index("ix_vector_store_files_file_id", "file_id", "owner"),
)
_IS_WAITING = vector_store_files.c.status == "in_progress"
Index(
    "ix_vector_store_files_waiting",
    vector_store_files.c.leased_us,
    sqlite_where=_IS_WAITING,
    postgresql_where=_IS_WAITING,
)

vector_store_batches = Table(
    "vector_store_batches",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("id", _ID_TYPE, primary_key=True),
    Column("store_id", _ID_TYPE, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("cancelled", Boolean, nullable=False),
    Index("ix_vector_store_batches_created_us", "created_us"),
    Index("ix_vector_store_batches_store_id", "store_id", "owner"),
)

vector_batch_files = Table(
    "vector_batch_files",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("batch_id", _ID_TYPE, primary_key=True),
    Column("file_id", _ID_TYPE, primary_key=True),
)

vector_chunks = Table(
    "vector_chunks",
    metadata,
    # SQLite's index of terms, which is a table for each store, refers to chunks by this number.
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("owner", _ID_TYPE, nullable=False),
    Column("store_id", _ID_TYPE, nullable=False),
    Column("file_id", _ID_TYPE, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("position", Integer, nullable=False),
    Column("fresh", Integer, nullable=False, comment="The first character that the chunk before does not have."),
    Column("text", Text, nullable=False),
    Column("terms", Text, nullable=False, comment="The terms of the text, with blanks between them."),
    Column("vector", Text().with_variant(TSVECTOR, "postgresql"), comment="PostgreSQL's index of terms."),
    Column(
        "embedding",
        LargeBinary().with_variant(ARRAY(REAL), "postgresql"),
        comment="The numbers of its vector, as 32-bit floats.",
    ),
    Column("signs", LargeBinary, comment="A bit for the sign of each number; not on PostgreSQL."),
    Index("ix_vector_chunks_file", "owner", "store_id", "file_id", "attempt", "position"),
)


class TermVector(FunctionElement[str]):
    """The terms of a chunk as PostgreSQL indexes them: each behind letters that stand for its store, so that a search
    reads nothing of other stores. SQLite has a table for each store instead.

    It is a function without arguments, because SQLAlchemy compiles other elements of one's own again for each query.
    """

    inherit_cache = True
    type = TSVECTOR()


@compiles(TermVector)
def _compile_term_vector(*_: object, **__: object) -> str:
    prefix = "translate(substr(md5(vector_chunks.store_id), 1, 8), '0123456789', 'ghijklmnop')"
    terms = f"{prefix} || replace(vector_chunks.terms, ' ', ' ' || {prefix})"
    return f"array_to_tsvector(string_to_array({terms}, ' '))"


Index(
    "ix_vector_chunks_terms",
    TermVector(),
    postgresql_using="gin",
    postgresql_with={"gin_pending_list_limit": 512},
    _table=vector_chunks,
)

_HAS_SIGNS = vector_chunks.c.signs.is_not(None)
Index(
    "ix_vector_chunks_signs",
    vector_chunks.c.owner,
    vector_chunks.c.store_id,
    vector_chunks.c.number,
    vector_chunks.c.file_id,
    vector_chunks.c.attempt,
    vector_chunks.c.signs,
    sqlite_where=_HAS_SIGNS,
    postgresql_where=_HAS_SIGNS,
)

vector_removals = Table(
    "vector_removals",
    metadata,
    Column("owner", _ID_TYPE, primary_key=True),
    Column("store_id", _ID_TYPE, primary_key=True),
    Column("file_id", _ID_TYPE, primary_key=True),
    Column("attempt", BigInteger, primary_key=True, comment="Its chunks count no more, and are to be deleted."),
)
