"""gateway/tools/host.py: what every kind of hosted tools has."""

import pytest
from pydantic import TypeAdapter, ValidationError

from gateway.config.settings import EgressSettings
from gateway.config.tool_settings import ToolSettings
from gateway.tools.host import KindParts, build_egress, build_kinds
from translation.agui.tool_items import is_hosted_call
from translation.encoding.visible_output import STEP_ITEMS
from translation.hosted.call_forms import MCP_FORMS, CallForm
from translation.representation.items import HOSTED_CALL_KINDS
from translation.responses.client.storable_items import to_storable_items
from translation.responses.schema.items import InputItem


def list_forms() -> list[CallForm]:
    kinds = build_kinds(KindParts(ToolSettings(), build_egress(EgressSettings())))
    return [*MCP_FORMS.values(), *(form for kind in kinds for form in kind.forms.values())]


FORMS = pytest.mark.parametrize("form", list_forms(), ids=lambda form: form.item_type)


@FORMS
def test_items_of_a_hosted_tool_are_known_as_calls_that_no_client_runs(form: CallForm) -> None:
    assert form.item_type in HOSTED_CALL_KINDS
    assert form.item_type in STEP_ITEMS


@FORMS
def test_clients_may_send_the_items_of_a_hosted_tool_back(form: CallForm) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(InputItem).validate_python({"type": form.item_type, "id": 0, "status": 0})
    assert "union_tag_invalid" not in {error["type"] for error in caught.value.errors()}


@FORMS
def test_an_item_that_is_stored_gets_an_id_with_the_prefix_of_the_form(form: CallForm) -> None:
    (stored,) = to_storable_items([{"type": form.item_type}], lambda prefix: f"{prefix}_1")
    assert stored["id"] == f"{form.id_prefix}_1"


@FORMS
def test_ag_ui_shows_the_result_of_a_hosted_tool(form: CallForm) -> None:
    has_own_item = form.output_type is not None
    assert is_hosted_call({"type": form.item_type}) is not has_own_item
