"""What every stored answer has the database do, built once: SQLAlchemy takes longer to build a statement than to
execute it. Others are built where they are used.
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
"""Not `in_`, whose list SQLAlchemy writes out anew each time it is executed."""

LOCK_RESPONSE: Final = select(responses.c.id).where(*_IS_READABLE).with_for_update(read=True)
"""Keeps a response from being forgotten before the transaction ends; gives its id, if there is one."""

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
"""Ends a response that is active and this worker's."""

FINISH_PLAIN_RESPONSE: Final = _UPDATE_TO_ENDED.where(
    responses.c.conversation_id.is_(None), ~responses.c.background, ~responses.c.logged
)
"""Ends it only where there is nothing else to end: no turn of a conversation, no job, no log."""
