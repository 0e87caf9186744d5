"""The chain of parents a response builds on, as queries.

What belongs to a link is looked up as a value, not joined: PostgreSQL may join everything its owner has, at every link.
"""

from typing import Any

from sqlalchemy import CTE, Select, and_, literal, select, true

from gateway.state.database.tables import items, responses


def select_ancestors(owner: str, response_id: str) -> CTE:
    """(id, parent_id, depth) of a response, depth 0, and of everything it builds on, deleted or not. A parent that is
    in no table any more is the last one."""
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
    """(depth, place, position, body) of every item of a chain's responses; `body` is null for one without any.

    By looking up each response's: left to themselves, both databases may go through all items the owner has.
    """
    columns = (items.c.place, items.c.position, items.c.body)
    mine = and_(items.c.owner == owner, items.c.response_id == chain.c.id)
    if is_sqlite:  # it has no LATERAL, and keeps the order of an outer join
        return select(chain.c.depth, *columns).outerjoin_from(chain, items, mine)
    # What has an offset, be it none, is not taken apart by the planner.
    each = select(*columns).where(mine).offset(0).lateral()
    return select(chain.c.depth, each.c.place, each.c.position, each.c.body).join_from(chain, each, true())


def select_unreferenced(owner: str, response_id: str) -> CTE:
    """The id of a deleted response that nothing builds on, and of every deleted response that only it builds on."""
    start = select(responses.c.id, responses.c.parent_id).where(
        responses.c.owner == owner, responses.c.id == response_id
    )
    gone = start.cte("unneeded", recursive=True)
    parent, sibling = responses.alias("parent"), responses.alias("sibling")
    is_parent = and_(parent.c.owner == owner, parent.c.id == gone.c.parent_id)
    deleted = select(parent.c.deleted).where(is_parent).scalar_subquery()
    grandparent = select(parent.c.parent_id).where(is_parent).scalar_subquery()
    other = select(sibling.c.id).where(
        sibling.c.owner == owner, sibling.c.parent_id == gone.c.parent_id, sibling.c.id != gone.c.id
    )
    return gone.union_all(
        select(gone.c.parent_id, grandparent).where(deleted.is_(true()), other.limit(1).scalar_subquery().is_(None))
    )
