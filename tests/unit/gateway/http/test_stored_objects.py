"""gateway/http/stored_objects.py, query.py: the query parameters of lists, and their refusals."""

import json

import pytest
from starlette.datastructures import QueryParams

from gateway.http import query_params as query_of
from gateway.http.stored_objects import build_page_reply, parse_page_request
from gateway.state.values import Page, PageRequest
from translation.errors import InvalidRequest


def test_the_default_page_is_the_first_twenty_in_the_lists_order() -> None:
    assert parse_page_request(QueryParams("")) == PageRequest(None, 20, "desc")
    assert parse_page_request(QueryParams(""), "asc") == PageRequest(None, 20, "asc")


def test_valid_query_parameters_are_used() -> None:
    asked = parse_page_request(QueryParams("after=msg_1&limit=100&order=asc&beta=true"))
    assert asked == PageRequest("msg_1", 100, "asc")
    assert parse_page_request(QueryParams("limit=1&include[]=a"), extra_names=("include",)).limit == 1


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ("limit=0", "limit", "invalid_value"),
        ("limit=101", "limit", "invalid_value"),
        ("limit=-1", "limit", "invalid_type"),
        ("limit=1.5", "limit", "invalid_type"),
        ("limit=", "limit", "invalid_type"),
        ("limit=ten", "limit", "invalid_type"),
        ("limit=%D9%A3", "limit", "invalid_type"),
        ("limit=" + "9" * 5000, "limit", "invalid_type"),
        ("limit=1&limit=2", "limit", "invalid_value"),
        ("order=up", "order", "invalid_value"),
        ("order=ASC", "order", "invalid_value"),
        ("order=", "order", "invalid_value"),
        ("after=a&after=b", "after", "invalid_value"),
        ("before=a", "before", "unknown_parameter"),
        ("limit[]=5", "limit[]", "unknown_parameter"),
        ("include[]=a", "include[]", "unknown_parameter"),
        ("x=" + "y" * 5000, "x", "unknown_parameter"),
    ],
)
def test_invalid_query_parameters_are_refused_by_name(query: str, param: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_page_request(QueryParams(query))
    assert (refused.value.param, refused.value.code) == (param, code)
    assert len(refused.value.message) < 300


def test_a_page_has_the_ids_of_its_ends() -> None:
    rows = [{"id": "a"}, {"id": "b"}]
    assert json.loads(bytes(build_page_reply(Page(rows, has_more=True)).body)) == {
        "object": "list",
        "data": rows,
        "first_id": "a",
        "last_id": "b",
        "has_more": True,
    }
    empty = b'{"object":"list","data":[],"first_id":"","last_id":"","has_more":false}'
    assert build_page_reply(Page([], has_more=False)).body == empty


def test_a_page_has_its_rows_as_the_api_lists_them() -> None:
    reply = build_page_reply(Page([{"id": "a"}], has_more=False), lambda row: {**row, "listed": True})
    assert json.loads(bytes(reply.body))["data"] == [{"id": "a", "listed": True}]


@pytest.mark.parametrize(
    "query", ["include=reasoning.encrypted_content", "include[]=code_interpreter_call.outputs", ""]
)
def test_known_includes_are_accepted(query: str) -> None:
    assert query_of.parse_include(QueryParams(query)) == frozenset(filter(None, [query.partition("=")[2]]))


@pytest.mark.parametrize("query", ["include=everything", "include[]=reasoning", "include[0]="])
def test_other_includes_are_refused(query: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        query_of.parse_include(QueryParams(query))
    assert refused.value.param == "include"


def test_flags_are_true_or_false() -> None:
    assert query_of.parse_boolean(QueryParams("stream=true"), "stream")
    assert not query_of.parse_boolean(QueryParams("stream=false"), "stream")
    with pytest.raises(InvalidRequest):
        query_of.parse_boolean(QueryParams("stream=1"), "stream")


def test_entries_are_keys_and_values() -> None:
    query = QueryParams("metadata[a]=1&metadata[b]=&model=m")
    assert dict(query_of.parse_entries(query, "metadata")) == {"a": "1", "b": ""}


def test_entries_are_as_many_as_an_object_has() -> None:
    entries = {f"k{number}": "v" for number in range(16)}
    query = "&".join(f"metadata[{key}]={value}" for key, value in entries.items())
    assert dict(query_of.parse_entries(QueryParams(query), "metadata")) == entries
    with pytest.raises(InvalidRequest, match="at most 16 entries are allowed") as refused:
        list(query_of.parse_entries(QueryParams(f"{query}&metadata[k16]=v"), "metadata"))
    assert refused.value.param == "metadata"


@pytest.mark.parametrize("query", ["metadata=a", "metadata[]=a", "metadata[a][b]=c", "metadata[a]=b&metadata[a]=b"])
def test_entries_without_one_key_of_their_own_are_refused(query: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        list(query_of.parse_entries(QueryParams(query), "metadata"))
    assert refused.value.param == "metadata"
