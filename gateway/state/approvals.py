"""The store of approvals of calls, as a protocol. Knows nothing of SQL."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from translation.hosted.approvals import ApprovalAnswers, ApprovalRecord


class ApprovalStore(Protocol):
    """Stores the requests for approvals of calls, and their states.

    A request is answered once, whichever replicas try: by `create_response`, or by `answer_approvals` for a response
    that is not stored. Its record is deleted with the response that made it, or a week after it has expired.
    """

    async def store_approvals(self, owner: str, records: Sequence[ApprovalRecord]) -> None:
        """Stores the records of new requests."""
        ...

    async def load_approvals(self, owner: str, request_ids: Sequence[str]) -> Mapping[str, ApprovalRecord]:
        """Returns the records by their ids, expired ones in the state `expired`. Unknown ids are absent."""
        ...

    async def answer_approvals(self, owner: str, answers: ApprovalAnswers, response_id: str) -> None:
        """Stores all answers of a response that begins, or none. Raises InvalidRequest if one no longer counts."""
        ...

    async def void_approvals(self, owner: str, request_ids: Sequence[str], response_id: str) -> None:
        """Changes the state of approvals from `used` to `void`: this response has used them, but did not run their
        calls."""
        ...

    async def reopen_approvals(self, owner: str, request_ids: Sequence[str], response_id: str) -> None:
        """Changes the state of approvals from `used` back to `open`: this response did not run their calls."""
        ...
