"""gateway/upstreams/affinity.py: which upstream stores a response."""

from gateway.upstreams.affinity import ResponseMakers
from gateway.upstreams.health import UpstreamName

FIRST, SECOND = UpstreamName("first", "m"), UpstreamName("second", "m")


def test_a_response_has_its_maker_for_its_owner_alone() -> None:
    makers = ResponseMakers()
    makers.note_maker("ann", "resp_1", FIRST)
    makers.note_maker("bob", "resp_1", SECOND)
    assert makers.find_maker("ann", "resp_1") == FIRST
    assert makers.find_maker("bob", "resp_1") == SECOND
    assert makers.find_maker("ann", "resp_2") is None


def test_what_upstreams_send_as_ids_is_bounded() -> None:
    makers = ResponseMakers()
    for response_id in (None, 7, ["x"], "x" * 257):
        makers.note_maker("ann", response_id, FIRST)
    assert makers.find_maker("ann", "x" * 257) is None
    for number in range(10_001):
        makers.note_maker("ann", f"resp_{number}", FIRST)
    assert makers.find_maker("ann", "resp_0") is None
    assert makers.find_maker("ann", "resp_10000") == FIRST
