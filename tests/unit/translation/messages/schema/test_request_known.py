"""The part of a Messages request that the schema knows, where the upstream has to judge the rest."""

import pytest

from translation.errors import InvalidRequest
from translation.messages.schema.request import keep_known
from translation.representation.json_types import Json

BODY: Json = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}


def test_values_beyond_the_schema_are_left_out() -> None:
    assert keep_known({**BODY, "temperature": 7, "top_k": -9}) == BODY


@pytest.mark.parametrize("params", [{"messages": []}, {"tools": [{"name": "f"}]}, {"max_tokens": None}])
def test_a_body_without_a_meaning_is_malformed(params: Json) -> None:
    with pytest.raises(InvalidRequest):
        keep_known({**BODY, **params})
