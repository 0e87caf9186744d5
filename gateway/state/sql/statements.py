"""The statements that every stored response executes, built once.

SQLAlchemy takes longer to build a statement than to execute it. Other statements are built where they are used.
"""

from typing import Final

from sqlalchemy import Text, bindparam, func, insert, or_, select, update

from gateway.state.database.tables import events, items, responses
from gateway.state.store import ACTIVE_STATUSES

INSERT_RESPONSE: Final = insert(responses)
INSERT_ITEMS: Final = insert(items)
INSERT_LOG_ENTRY: Final = insert(events)

_IS_READABLE = (
    responses.c.owner == bindparam("its_owner"),
    responses.c.id == bindparam("its_id"),
    ~responses.c.deleted,
)

_IS_ACTIVE = or_(*(responses.c.status == status for status in ACTIVE_STATUSES))
"""Does not use `in_`, because SQLAlchemy renders its list again for each execution."""

LOCK_RESPONSE: Final = select(responses.c.id).where(*_IS_READABLE).with_for_update(read=True)
"""Prevents the deletion of a response until the transaction ends. Selects its id, or no row if it does not exist."""

_UPDATE_TO_ENDED = (
    update(responses)
    .where(*_IS_READABLE, _IS_ACTIVE, responses.c.worker == bindparam("its_worker"))
    .values(
        status=bindparam("ended_status"),
        body=bindparam("ended_body"),
        losses=func.coalesce(bindparam("ended_losses", type_=Text), responses.c.losses),
        worker=None,
    )
)

FINISH_RESPONSE: Final = _UPDATE_TO_ENDED.returning(
    responses.c.conversation_id, responses.c.background, responses.c.logged
)
"""Ends a response that is active and held by the worker. Returns no row for others."""

FINISH_PLAIN_RESPONSE: Final = _UPDATE_TO_ENDED.where(
    responses.c.conversation_id.is_(None), ~responses.c.background, ~responses.c.logged
)
"""Ends such a response only if nothing else must be written: it has no conversation, no job and no event log."""
