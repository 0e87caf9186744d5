"""Which tools a request may use, and which calls need an approval."""

from typing import Any

import pytest

from translation.hosted.policy import is_allowed, may_need_approval, needs_approval


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        (None, [True, True]),
        (["read"], [True, False]),
        ([], [False, False]),
        ({}, [False, False]),
        ({"tool_names": ["write"]}, [False, True]),
        ({"read_only": True}, [True, False]),
        ({"read_only": False}, [False, True]),
        ({"tool_names": ["read", "write"], "read_only": True}, [True, False]),
        ({"tool_names": [], "read_only": True}, [False, False]),
        ({"excluded_tool_names": ["write"]}, [True, False]),
    ],
)
def test_allowed_tools_is_a_list_of_names_or_a_filter(allowed: Any, expected: list[bool]) -> None:
    assert [
        is_allowed(allowed, "read", is_read_only=True),
        is_allowed(allowed, "write", is_read_only=False),
    ] == expected


READ: dict[str, Any] = {"tool_names": ["read"]}
WRITE: dict[str, Any] = {"tool_names": ["write"]}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (None, [True, True]),
        ("always", [True, True]),
        ("never", [False, False]),
        ({}, [True, True]),
        ({"never": READ}, [False, True]),
        ({"never": {"read_only": True}}, [False, True]),
        ({"always": WRITE}, [False, True]),
        ({"always": WRITE, "never": READ}, [False, True]),
        ({"always": READ, "never": READ}, [True, True]),
        ({"always": None, "never": None}, [True, True]),
    ],
)
def test_approvals_are_needed_unless_the_request_has_never(policy: Any, expected: list[bool]) -> None:
    needs = [needs_approval(policy, "read", is_read_only=True), needs_approval(policy, "write", is_read_only=False)]
    assert needs == expected
    assert may_need_approval(policy) or not any(needs)


def test_only_never_for_all_tools_needs_no_approval_at_all() -> None:
    assert not may_need_approval("never")
    assert may_need_approval({"never": {"read_only": True}})
