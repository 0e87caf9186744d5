"""What every stored answer has the database do, built once: SQLAlchemy takes longer to build a statement than to
execute it. Others are built where they are used.
"""

from typing import Final

from sqlalchemy import Text, bindparam, func, insert, or_, select, update

from gateway.state.database.tables import events, items, responses
from gateway.state.store import ACTIVE

ADD_RESPONSE: Final = insert(responses)
ADD_ITEMS: Final = insert(items)
ADD_EVENTS: Final = insert(events)

_IS_READABLE = (
    responses.c.owner == bindparam("its_owner"),
    responses.c.id == bindparam("its_id"),
    ~responses.c.deleted,
)

_IS_ACTIVE = or_(*(responses.c.status == status for status in ACTIVE))
"""Not `in_`, whose list SQLAlchemy writes out anew each time it is executed."""

HOLD: Final = select(responses.c.id).where(*_IS_READABLE).with_for_update(read=True)
"""Keeps a response from being forgotten before the transaction ends; gives its id, if there is one."""

_END = (
    update(responses)
    .where(*_IS_READABLE, _IS_ACTIVE, responses.c.worker == bindparam("its_worker"))
    .values(
        status=bindparam("ended_status"),
        body=bindparam("ended_body"),
        losses=func.coalesce(bindparam("ended_losses", type_=Text), responses.c.losses),
        worker=None,
    )
)

FINISH: Final = _END.returning(responses.c.conversation_id, responses.c.background, responses.c.logged)
"""Ends a response that is active and this worker's."""

FINISH_PLAIN: Final = _END.where(responses.c.conversation_id.is_(None), ~responses.c.background, ~responses.c.logged)
"""Ends it only where there is nothing else to end: no turn of a conversation, no job, no log."""
