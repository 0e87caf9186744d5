"""Reads the JSON bodies of uploads: what is created, and what is completed."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gateway.files.file_names import clean_file_name
from gateway.files.file_params import EXPIRES_AFTER, check_expiry, check_purpose
from translation.errors import InvalidRequest
from translation.representation.json_types import Json
from translation.validation import refuse_unknown_names

_CREATED_KEYS: Final = ("bytes", "filename", "mime_type", "purpose", EXPIRES_AFTER)
_COMPLETED_KEYS: Final = ("part_ids", "md5")
_EXPIRY_KEYS: Final = ("anchor", "seconds")
_MAX_TYPE_CHARS: Final = 255
_MAX_PARTS: Final = 100_000
_MD5: Final = re.compile(r"[0-9A-Fa-f]{32}")


class NewUpload(NamedTuple):
    """What a client says of a file before it sends its parts."""

    size: int
    filename: str
    purpose: str
    file_expires_s: int | None


def read_new_upload(body: Json) -> NewUpload:
    """Returns the upload that a body describes. Raises InvalidRequest with the parameter at fault."""
    refuse_unknown_names(body, _CREATED_KEYS)
    size = _require(body, "bytes")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise _build_error("bytes", "it must be a whole number of at least 1")
    filename, media_type = _require(body, "filename"), _require(body, "mime_type")
    if not isinstance(filename, str):
        raise _build_error("filename", "it must be a text")
    if not isinstance(media_type, str) or not 0 < len(media_type) <= _MAX_TYPE_CHARS:
        raise _build_error("mime_type", f"it must be a text of at most {_MAX_TYPE_CHARS} characters")
    expiry = body.get(EXPIRES_AFTER)
    file_expires_s = None
    if expiry is not None:
        if not isinstance(expiry, dict) or not expiry.keys() <= set(_EXPIRY_KEYS):
            raise _build_error(EXPIRES_AFTER, "it must be an object with anchor and seconds")
        file_expires_s = check_expiry(expiry.get("anchor"), expiry.get("seconds"))
    name = clean_file_name(filename, "filename")
    return NewUpload(size, name, check_purpose(_require(body, "purpose")), file_expires_s)


def read_completion(body: Json) -> tuple[Sequence[str], str | None]:
    """Returns the ids of the parts, and the MD5 of the file in hex if there is one. Raises InvalidRequest."""
    refuse_unknown_names(body, _COMPLETED_KEYS)
    part_ids, md5 = _require(body, "part_ids"), body.get("md5")
    if not isinstance(part_ids, list) or not 0 < len(part_ids) <= _MAX_PARTS:
        raise _build_error("part_ids", "it must be a list of at least one id")
    if not all(isinstance(part_id, str) for part_id in part_ids):
        raise _build_error("part_ids", "its entries must be texts")
    if md5 is not None and (not isinstance(md5, str) or _MD5.fullmatch(md5) is None):
        raise _build_error("md5", "it must have 32 digits in hex")
    return part_ids, md5


def _require(body: Json, name: str) -> Any:
    if body.get(name) is None:
        raise InvalidRequest(f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter")
    return body[name]


def _build_error(name: str, rule: str) -> InvalidRequest:
    return InvalidRequest(f"Invalid value for '{name}': {rule}.", param=name)
