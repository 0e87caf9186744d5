"""Pages of lists end before they are too large, on both databases, and nothing is left out or repeated."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from gateway.config.settings import BackgroundSettings, StoreSettings
from gateway.state.prompt_records import PromptQuota
from gateway.state.row_pages import count_rows
from gateway.state.sql.store import SqlStore
from gateway.state.values import Order, Page, PageRequest, UnknownCursor
from tests.state.responses import message_item, new, response, turn
from translation.representation.json_types import Json

SIZES = (10, 90_000, 90_000, 10, 200_000, 10)
"""The lengths of texts. A page has 104,857 bytes at most, or one row."""
PAGES = ([0, 1], [2, 3], [4], [5])
PAGES_FROM_THE_END = ([5], [4], [3, 2], [1, 0])
MAX_MB = 0.1
QUOTA = PromptQuota(prompts=10, versions=10)

Read = Callable[[PageRequest], Awaitable[Page | None]]


@pytest.fixture
async def small_pages(store_url: str) -> AsyncIterator[SqlStore]:
    opened = SqlStore(StoreSettings(url=store_url, deadline_s=60, max_page_mb=MAX_MB), BackgroundSettings())
    await opened.open()
    yield opened
    await opened.aclose()


async def store_conversation_items(store: SqlStore) -> Read:
    items = [message_item("x" * size) for size in SIZES]
    await store.conversations.create_conversation("ann", {"id": "conv_1"}, items)
    return lambda page: store.conversations.list_conversation_items("ann", "conv_1", page)


async def store_input_items(store: SqlStore) -> Read:
    begun = response()
    await store.responses.create_response(new(begun, *[message_item("x" * size) for size in SIZES]))
    return lambda page: store.responses.list_input_items("ann", begun["id"], page)


async def store_responses(store: SqlStore) -> Read:
    for size in SIZES:
        await turn(store, "x" * size)
    return lambda page: store.responses.list_responses("ann", page)


async def store_completions(store: SqlStore) -> Read:
    for number, size in enumerate(SIZES):
        await store.completions.store_completion("ann", {"id": f"c-{number}", "model": "m", "text": "x" * size}, [])
    return lambda page: store.completions.list_completions("ann", page)


async def store_prompts(store: SqlStore) -> Read:
    for number, size in enumerate(SIZES):
        await store.prompts.create_prompt("ann", f"pmpt_{number}", {"instructions": "x" * size}, QUOTA)
    return lambda page: store.prompts.list_prompts("ann", page)


async def store_versions(store: SqlStore) -> Read:
    first, *others = SIZES
    await store.prompts.create_prompt("ann", "pmpt_v", {"instructions": "x" * first}, QUOTA)
    for size in others:
        await store.prompts.add_prompt_version("ann", "pmpt_v", {"instructions": "x" * size}, QUOTA)
    return lambda page: store.prompts.list_prompt_versions("ann", "pmpt_v", page)


LISTS = [
    store_conversation_items,
    store_input_items,
    store_responses,
    store_completions,
    store_prompts,
    store_versions,
]


def cursor_of(row: Json) -> str:
    """Returns the cursor of a row: its id, or the number of a version."""
    return str(row["version"] if row.get("id") == "pmpt_v" and "version" in row else row["id"])


async def read_pages(read: Read, *, order: Order, is_bounded: bool = True) -> list[list[Json]]:
    """Returns the rows of all pages."""
    pages: list[list[Json]] = []
    after: str | None = None
    while True:
        page = await read(PageRequest(after, 100, order, is_bounded=is_bounded))
        assert page is not None
        pages.append(list(page.rows))
        if not page.has_more:
            return pages
        after = cursor_of(page.rows[-1])


@pytest.mark.parametrize("begin", LISTS, ids=lambda begin: begin.__name__)
async def test_a_page_ends_before_it_is_too_large(
    small_pages: SqlStore, begin: Callable[[SqlStore], Awaitable[Read]]
) -> None:
    read = await begin(small_pages)
    (rows,) = await read_pages(read, is_bounded=False, order="asc")
    assert len(rows) == len(SIZES)
    assert [max(str(row).lower().count("x") // 10 * 10, 10) for row in rows] == list(SIZES)
    assert await read_pages(read, order="asc") == [[rows[place] for place in page] for page in PAGES]
    assert await read_pages(read, order="desc") == [[rows[place] for place in page] for page in PAGES_FROM_THE_END]


async def test_bytes_count_and_not_characters(small_pages: SqlStore) -> None:
    items = [message_item("漢" * 20_000)] * 3
    await small_pages.conversations.create_conversation("ann", {"id": "conv_1"}, items)
    page = await small_pages.conversations.list_conversation_items("ann", "conv_1", PageRequest())
    assert page is not None
    assert (len(page.rows), page.has_more) == (1, True)


@pytest.mark.parametrize("after", ["7", "0", "-1", "1.0", "01", "", "pmpt_v", "9" * 30, "\0"])
async def test_only_the_number_of_a_version_is_a_cursor(small_pages: SqlStore, after: str) -> None:
    read = await store_versions(small_pages)
    with pytest.raises(UnknownCursor):
        await read(PageRequest(after))
    assert await small_pages.prompts.list_prompt_versions("ann", "pmpt_2", PageRequest(after)) is None


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ([], 2, (0, False)),
        ([1, 1], 2, (2, False)),
        ([1, 1, 1], 2, (2, True)),
        ([5, 5], 2, (2, False)),
        ([5, 6], 2, (1, True)),
        ([99], 2, (1, False)),
        ([99, 0], 2, (1, True)),
        ([0, 99], 2, (1, True)),
    ],
)
def test_the_rows_of_a_page(sizes: Sequence[int], limit: int, expected: tuple[int, bool]) -> None:
    assert count_rows(sizes, PageRequest(limit=limit), 10) == expected
