"""Queries that look rows up one by one: the chain of parents that a response builds on, and items by their ids.

Columns of a link are scalar subqueries, not joins: PostgreSQL may join all rows of the owner at every link.
"""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import (
    CTE,
    ColumnElement,
    Select,
    TableValuedAlias,
    Text,
    and_,
    cast,
    false,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY

from gateway.state.database.tables import conversation_items, items, responses


def select_ancestors(owner: str, response_id: str) -> CTE:
    """Builds a query for (id, parent_id, depth) of a response and of all its ancestors, deleted or not.

    The response itself has depth 0. The chain ends with a parent whose row no longer exists.
    """
    start = select(responses.c.id, responses.c.parent_id, literal(0).label("depth")).where(
        responses.c.owner == owner, responses.c.id == response_id, ~responses.c.deleted
    )
    chain = start.cte("chain", recursive=True)
    parent = responses.alias("parent")
    grandparent = select(parent.c.parent_id).where(parent.c.owner == owner, parent.c.id == chain.c.parent_id)
    return chain.union_all(
        select(chain.c.parent_id, grandparent.scalar_subquery(), chain.c.depth + 1).where(
            chain.c.parent_id.is_not(None)
        )
    )


def select_items(chain: CTE, owner: str, *, is_sqlite: bool) -> Select[Any]:
    """Builds a query for (depth, place, position, body) of every item of a chain's responses.

    `body` is null for a response without items. The query looks items up per response: with a plain join, both
    databases may scan all items of the owner.
    """
    columns = (items.c.place, items.c.position, items.c.body)
    of_response = and_(items.c.owner == owner, items.c.response_id == chain.c.id)
    if is_sqlite:  # it has no LATERAL, and executes an outer join in the written order
        return select(chain.c.depth, *columns).outerjoin_from(chain, items, of_response)
    # The planner does not flatten a subquery with an OFFSET, not even with OFFSET 0.
    per_response = select(*columns).where(of_response).offset(0).lateral()
    return select(chain.c.depth, per_response.c.place, per_response.c.position, per_response.c.body).join_from(
        chain, per_response, true()
    )


def select_items_by_id(item_ids: Sequence[str], owner: str, *, is_sqlite: bool) -> Sequence[Select[Any]]:
    """Builds queries for (id, body, deleted, created_us) of items with these ids: of conversations, and of responses.

    On SQLite `body` is null for ids without a row. Each id is looked up by itself. With a list of ids SQLite estimates
    that it is cheaper to scan everything the owner has, because it expects ten rows per owner.
    """
    requested, requested_id = _build_requested(item_ids, is_sqlite=is_sqlite)
    in_conversation = and_(conversation_items.c.owner == owner, conversation_items.c.id == requested_id)
    in_response = and_(items.c.owner == owner, items.c.id == requested_id)
    its_response = and_(responses.c.owner == items.c.owner, responses.c.id == items.c.response_id)
    conversation_columns = conversation_items.c.body, false().label("deleted"), literal(0).label("created_us")
    response_columns = items.c.body, responses.c.deleted, responses.c.created_us
    if is_sqlite:  # an outer join is executed in the written order, if no condition excludes its null rows
        return (
            select(conversation_items.c.id, *conversation_columns).outerjoin_from(
                requested, conversation_items, in_conversation
            ),
            select(items.c.id, *response_columns)
            .outerjoin_from(requested, items, in_response)
            .outerjoin(responses, its_response),
        )
    of_conversations = select(conversation_items.c.id, *conversation_columns).where(in_conversation)
    of_responses = select(items.c.id, *response_columns).join_from(items, responses, its_response).where(in_response)
    laterals = [query.offset(0).lateral() for query in (of_conversations, of_responses)]
    return [select(rows).join_from(requested, rows, true()) for rows in laterals]


def select_existing_ids(item_ids: Sequence[str], owner: str, conversation_id: str, *, is_sqlite: bool) -> Select[Any]:
    """Builds a query for which of these ids a conversation already has. On SQLite there are null rows for the others.

    Each id is looked up by itself, because a conversation may have far more items.
    """
    requested, requested_id = _build_requested(item_ids, is_sqlite=is_sqlite)
    is_item = and_(
        conversation_items.c.owner == owner,
        conversation_items.c.conversation_id == conversation_id,
        conversation_items.c.id == requested_id,
    )
    if is_sqlite:
        return select(conversation_items.c.id).outerjoin_from(requested, conversation_items, is_item)
    per_id = select(conversation_items.c.id).where(is_item).offset(0).lateral()
    return select(per_id.c.id).join_from(requested, per_id, true())


def _build_requested(item_ids: Sequence[str], *, is_sqlite: bool) -> tuple[TableValuedAlias, ColumnElement[str]]:
    """Returns a table of the ids, which are one parameter, and its column."""
    if is_sqlite:
        requested = func.json_each(orjson.dumps(list(item_ids)).decode()).table_valued("value", name="requested")
        return requested, requested.c.value
    requested = func.unnest(cast(list(item_ids), ARRAY(Text))).table_valued("id").render_derived(name="requested")
    return requested, requested.c.id


def select_unreferenced(owner: str, response_id: str) -> CTE:
    """Builds a query for ids that history no longer needs.

    The ids belong to a deleted response without children, and to each deleted ancestor with no other child.
    """
    start = select(responses.c.id, responses.c.parent_id).where(
        responses.c.owner == owner, responses.c.id == response_id
    )
    unreferenced = start.cte("unneeded", recursive=True)
    parent, sibling = responses.alias("parent"), responses.alias("sibling")
    is_parent = and_(parent.c.owner == owner, parent.c.id == unreferenced.c.parent_id)
    deleted = select(parent.c.deleted).where(is_parent).scalar_subquery()
    grandparent = select(parent.c.parent_id).where(is_parent).scalar_subquery()
    other = select(sibling.c.id).where(
        sibling.c.owner == owner, sibling.c.parent_id == unreferenced.c.parent_id, sibling.c.id != unreferenced.c.id
    )
    return unreferenced.union_all(
        select(unreferenced.c.parent_id, grandparent).where(
            deleted.is_(true()), other.limit(1).scalar_subquery().is_(None)
        )
    )
