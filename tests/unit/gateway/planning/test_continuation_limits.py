"""A history that is too long to be continued is refused by the parameter that names it."""

import pytest

from gateway.planning.continuation import refuse_long_history
from gateway.state.values import HistoryTooLong
from translation.errors import InvalidRequest


def test_a_history_that_is_too_long_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="max_history_items") as refused, refuse_long_history("conversation"):
        raise HistoryTooLong("it has more than 5 items (store.max_history_items)")
    assert (refused.value.param, refused.value.code) == ("conversation", "history_too_long")
