"""The chain of parents a response builds on, as queries."""

from sqlalchemy import CTE, and_, literal, select

from gateway.state.tables import responses


def ancestors(owner: str, response_id: str) -> CTE:
    """(id, parent_id, depth) of a response, depth 0, and of everything it builds on, deleted or not."""
    start = select(responses.c.id, responses.c.parent_id, literal(0).label("depth")).where(
        responses.c.owner == owner, responses.c.id == response_id, ~responses.c.deleted
    )
    chain = start.cte("chain", recursive=True)
    parent = responses.alias("parent")
    return chain.union_all(
        select(parent.c.id, parent.c.parent_id, chain.c.depth + 1).join_from(
            chain, parent, and_(parent.c.owner == owner, parent.c.id == chain.c.parent_id)
        )
    )


def unneeded(owner: str, response_id: str) -> CTE:
    """The id of a deleted response that nothing builds on, and of every deleted response that only it builds on."""
    start = select(responses.c.id, responses.c.parent_id).where(
        responses.c.owner == owner, responses.c.id == response_id
    )
    gone = start.cte("unneeded", recursive=True)
    parent, sibling = responses.alias("parent"), responses.alias("sibling")
    others = select(sibling.c.id).where(
        sibling.c.owner == owner, sibling.c.parent_id == parent.c.id, sibling.c.id != gone.c.id
    )
    return gone.union_all(
        select(parent.c.id, parent.c.parent_id)
        .join_from(gone, parent, and_(parent.c.owner == owner, parent.c.id == gone.c.parent_id, parent.c.deleted))
        .where(~others.correlate(parent, gone).exists())
    )
