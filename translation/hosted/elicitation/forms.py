"""The input that a tool asks of the user: forms to fill in, and addresses to open.

They are checked before they are sent. Source: the Model Context Protocol, revision 2026-07-28, `elicitation/create` in
an `InputRequiredResult`.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import orjson

from translation.hosted.bounds import SchemaLimits
from translation.hosted.schema_checks import find_schema_fault
from translation.representation.json_types import Json

_HTTPS: Final = "https"
_MAX_URL_CHARS: Final = 8192
_NAME: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputForm:
    """One question. `key` is the server's name for it.

    `schema` describes the content of the answer. It is None if the user has to open a `url`.
    """

    key: str
    message: str
    schema: Json | None = None
    url: str | None = None

    @property
    def host(self) -> str:
        """The host of the address, for the user to judge."""
        return urlsplit(self.url or "").hostname or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedInput:
    """The input that a call needs from the user before it continues.

    `state` is data of the server, which it gets back unchanged. `round` counts the questions of the call from 1.
    `call_id` is the id of the call's first item, by which clients know the call.
    """

    forms: Sequence[InputForm]
    state: str | None
    round: int = 1
    call_id: str = ""

    def describe(self) -> Json:
        """Returns the question for the client: one form, or one address.

        Several questions are one form, whose fields are objects with the keys of the server. Then a question is
        declined by leaving its field out.
        """
        if len(self.forms) == 1:
            (form,) = self.forms
            if form.url is not None:
                return {"mode": "url", "message": form.message, "url": form.url, "host": form.host}
            return {"mode": "form", "message": form.message, "requested_schema": form.schema}
        properties = {form.key: _field_of(form) for form in self.forms}
        message = "\n".join(form.message for form in self.forms)
        return {
            "mode": "form",
            "message": message,
            "requested_schema": {"type": "object", "properties": properties},
        }

    def to_json(self) -> Json:
        """Returns the value as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Json) -> "RequestedInput":
        """Returns the value that `to_json` was called on."""
        return cls(**{**fields, "forms": tuple(InputForm(**form) for form in fields["forms"])})


def find_form_fault(requested: RequestedInput, *, max_bytes: int, schema_limits: SchemaLimits) -> str | None:
    """Returns why the user cannot be asked, as the rest of a sentence; None if nothing is wrong.

    `max_bytes` limits the size of all forms together, and the size of the state.
    """
    if not requested.forms:
        return "it does not say what it needs"
    if len((requested.state or "").encode(errors="surrogatepass")) > max_bytes:
        return f"its state has more than {max_bytes} bytes"
    try:
        size = len(orjson.dumps([asdict(form) for form in requested.forms]))
    except orjson.JSONEncodeError:
        return "its forms have a number of more than 64 bits, or too many levels"
    if size > max_bytes:
        return f"its forms have more than {max_bytes} bytes"
    for form in requested.forms:
        if form.url is not None:
            if not _is_safe_url(form.url):
                return "it wants the user to open an address that is not https, or whose host cannot be judged"
        elif (fault := find_schema_fault(form.schema, schema_limits)) is not None:
            return fault
    return None


def _is_safe_url(url: str) -> bool:
    """Whether every reader of an address finds the same host in it, which the user can judge."""
    # In ASCII, because letters of other scripts can make a host look like another one. Browsers read a backslash as a
    # slash (WHATWG URL, "special authority"), so what is before it would be the host.
    if not (url.isascii() and url.isprintable()) or " " in url or "\\" in url or len(url) > _MAX_URL_CHARS:
        return False
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme == _HTTPS and parts.port != 0
    except ValueError:
        return False
    return is_valid and "@" not in parts.netloc and _is_plain_host(parts.hostname or "")


def _is_plain_host(host: str) -> bool:
    """Whether a host is a name of letters, digits and hyphens, or an address in its usual form.

    Browsers read a name whose last part is a number as an address, such as 0x7f.1 as 127.0.0.1.
    """
    last = host.rstrip(".").rpartition(".")[2]
    if _NAME.fullmatch(host) and not _NUMBER.fullmatch(last):
        return True
    try:
        ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def _field_of(form: InputForm) -> Json:
    if form.url is not None:
        return {"type": "boolean", "title": form.message, "description": f"Open {form.url}, on {form.host}."}
    return {**(form.schema or {}), "title": form.message}
