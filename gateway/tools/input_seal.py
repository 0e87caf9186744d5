"""Seals requests for user input, which are stored together with the server's private state."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import orjson
import structlog

from gateway.errors import CredentialsNotStored, StoreUnavailable
from gateway.sealing.sealer import Sealer, UnsealFailed
from translation.hosted.approvals import ApprovalAnswers, ApprovalRecord
from translation.hosted.elicitation.forms import RequestedInput
from translation.representation.json_types import Json

_log = structlog.get_logger(__name__)

_REQUEST: Final = "input of "
_ANSWERS: Final = "answers of "
"""Purposes of a seal, with an id and the owner. The space keeps them apart from the names of keys."""


class InputSeal:
    """Seals for one owner and one request, with the keys of the configuration, or else with the key of the store."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def seal_input(self, requested: RequestedInput, owner: str, request_id: str) -> str:
        """Returns sealed text. Raises StoreUnavailable if the key is in the store, which cannot be read."""
        return self._seal(requested.to_json(), f"{_REQUEST}{request_id} {owner}")

    def unseal_records(self, owner: str, records: Mapping[str, ApprovalRecord]) -> dict[str, ApprovalRecord]:
        """Returns the records with the input that their calls ask for. A record that cannot be unsealed has expired.

        Raises StoreUnavailable.
        """
        return {request_id: self._unseal_record(owner, record) for request_id, record in records.items()}

    def save_answers(self, answers: ApprovalAnswers, owner: str, response_id: str) -> Json:
        """Returns the answers of a job's request as JSON. Raises StoreUnavailable."""
        fields = answers.to_json()
        inputs = fields.pop("inputs")
        return {**fields, "sealed": self._seal(inputs, f"{_ANSWERS}{response_id} {owner}")} if inputs else fields

    def load_answers(self, fields: Json, owner: str, response_id: str) -> ApprovalAnswers:
        """Returns the answers that `save_answers` was given.

        Raises StoreUnavailable, and CredentialsNotStored if no key of this server unseals the input.
        """
        if (sealed := fields.get("sealed")) is None:
            return ApprovalAnswers.from_json(fields)
        try:
            inputs = orjson.loads(self._sealer.unseal(sealed, f"{_ANSWERS}{response_id} {owner}"))
        except UnsealFailed:
            raise CredentialsNotStored from None
        return ApprovalAnswers.from_json({**fields, "inputs": inputs})

    def _seal(self, value: Json, purpose: str) -> str:
        sealed = self._sealer.seal(orjson.dumps(value), purpose)
        if sealed is None:
            raise StoreUnavailable
        return sealed

    def _unseal_record(self, owner: str, record: ApprovalRecord) -> ApprovalRecord:
        if record.sealed_input is None:
            return record
        try:
            unsealed = self._sealer.unseal(record.sealed_input, f"{_REQUEST}{record.id} {owner}")
        except UnsealFailed:
            _log.warning("input_unseal_failed", approval=record.id)
            return replace(record, state="expired") if record.state == "open" else record
        return replace(record, requested_input=RequestedInput.from_json(orjson.loads(unsealed)))
