"""Searches for tools find the right ones first."""

import pytest

from gateway.tools.tool_search.executor import rank_tools
from translation.hosted.tool_search.deferred_tools import DeferredTool

TOOLS = [
    DeferredTool(name, {}, f"{name} {name} {text}", is_own=False)
    for name, text in (
        ("gh_createIssue", "Opens a new issue in a repository. title body labels"),
        ("gh_list_issues", "Lists the issues of a repository. state labels"),
        ("mail_send", "Sends an email to someone. to subject body"),
        ("calendar_add", "Adds an appointment to a calendar. date duration"),
        ("wetter", "Zeigt das Wetter in einer Stadt. Größe"),
        ("tenki", "都市の天気を調べる"),
        ("db_query", "Runs SQL against the database."),
    )
]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("create an issue", "gh_createIssue"),
        ("issues", "gh_list_issues"),
        ("send emails", "mail_send"),
        ("make appointments", "calendar_add"),
        ("GROSSE Städte", "wetter"),
        ("天気", "tenki"),
        ("sql", "db_query"),
        ("gh_create_issue", "gh_createIssue"),
        ("mail.send", "mail_send"),
    ],
)
def test_the_best_tool_comes_first(query: str, best: str) -> None:
    assert rank_tools(query, TOOLS, 3)[0] == best


def test_only_tools_that_cover_something_are_found() -> None:
    assert rank_tools("zebra", TOOLS, 3) == []
    assert rank_tools("?!", TOOLS, 3) == []
    assert rank_tools("", TOOLS, 3) == []
    assert len(rank_tools("issue email database", TOOLS, 2)) == 2
    assert rank_tools("issue", [], 2) == []
