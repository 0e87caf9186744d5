"""The names of hosted tools, and digests of their definitions and arguments."""

from dataclasses import replace

import pytest

from tests.tool_rounds import hosted_tool
from translation.hosted.tools import ToolCatalogue, ToolKey, digest_arguments, model_name_of


def test_fault_19_a_name_that_is_too_long_or_has_other_characters_is_mapped_for_the_model_only() -> None:
    assert model_name_of(ToolKey("calc", "add")) == "calc_add"
    keys = [ToolKey("calc", name) for name in ("größe", "gr.ße", "x" * 60, "x" * 61, "a.b", "a_b")]
    names = [model_name_of(key) for key in keys]
    assert len(set(names)) == len(names)
    for name in names:
        assert name.replace("_", "").replace("-", "").isalnum()
        assert name.isascii()
        assert len(name) <= 64
    catalogue = ToolCatalogue.build([hosted_tool(key.name) for key in keys])
    for key, name in zip(keys, names, strict=True):
        assert catalogue.name_of(key) == name
        found = catalogue.find(name)
        assert found is not None
        assert found.key == key


def test_fault_15_of_a_tool_listed_twice_the_first_one_counts() -> None:
    catalogue = ToolCatalogue.build([hosted_tool(description="first"), hosted_tool(description="second")])
    assert [function["description"] for function in catalogue.functions] == ["first"]


@pytest.mark.parametrize("taken", ["calc_add", "CALC_ADD"])
def test_fault_17_a_name_of_the_clients_function_stays_with_the_client(taken: str) -> None:
    catalogue = ToolCatalogue.build([hosted_tool()], [taken])
    (name,) = catalogue.tools
    assert name.startswith("calc_add_")
    assert catalogue.find(taken) is None
    assert catalogue.name_of(ToolKey("calc", "add")) == name


def test_two_tools_whose_prefixed_names_are_equal_have_different_names() -> None:
    catalogue = ToolCatalogue.build([hosted_tool("b_c", "a"), hosted_tool("c", "a_b")])
    assert len(catalogue.tools) == 2
    assert catalogue.name_of(ToolKey("a", "b_c")) == "a_b_c"


def test_a_server_cannot_take_the_name_that_a_tool_gets_instead() -> None:
    twin = hosted_tool("c", "a_b")
    shortened = ToolCatalogue.build([twin], ["a_b_c"]).name_of(twin.key)
    squatter = hosted_tool(shortened.removeprefix("a_"), "a")
    catalogue = ToolCatalogue.build([squatter, twin], ["a_b_c"])
    assert len(catalogue.tools) == 2
    assert catalogue.name_of(squatter.key) == shortened
    assert catalogue.name_of(twin.key) != shortened


def test_functions_are_in_the_order_of_servers_and_names_and_have_their_schemas() -> None:
    tools = [hosted_tool("b", parameters={}), hosted_tool("a", description="A")]
    catalogue = ToolCatalogue.build([*tools, hosted_tool("c", "art")])
    assert catalogue.functions[1] == {
        "type": "function",
        "name": "calc_b",
        "description": "",
        "parameters": {},
        "strict": False,
    }
    assert [function["name"] for function in catalogue.functions] == ["calc_a", "calc_b", "art_c"]
    relisted = ToolCatalogue.build([*reversed(tools), hosted_tool("c", "art")])
    assert relisted.functions == catalogue.functions


def test_fault_21_a_tool_that_is_no_longer_listed_has_its_plain_name() -> None:
    assert ToolCatalogue().name_of(ToolKey("calc", "gone")) == "calc_gone"


def test_the_key_of_an_unknown_tool_is_guessed_from_its_prefix() -> None:
    catalogue = ToolCatalogue.build([hosted_tool("x", "a"), hosted_tool("x", "a_b")])
    assert catalogue.guess_key("a_b_y") == ToolKey("a_b", "y")
    assert catalogue.guess_key("a_y") == ToolKey("a", "y")
    assert catalogue.guess_key("y") == ToolKey("a", "y")
    assert ToolCatalogue().guess_key("y") == ToolKey("", "y")


def test_the_digest_of_a_definition_changes_with_all_that_an_approval_relies_on() -> None:
    tools = [
        hosted_tool(),
        hosted_tool("sub"),
        hosted_tool(server="other"),
        hosted_tool(description="adds"),
        hosted_tool(parameters={}),
        hosted_tool(origin="https://elsewhere"),
    ]
    assert len({tool.definition_digest for tool in tools}) == len(tools)
    assert hosted_tool().definition_digest == hosted_tool(needs_approval=True).definition_digest


def test_the_digest_of_arguments_is_that_of_their_value() -> None:
    assert digest_arguments('{"a":1,"b":2}') == digest_arguments('{ "b": 2, "a": 1 }')
    assert digest_arguments('{"a":1}') != digest_arguments('{"a":2}')
    assert digest_arguments("{") != digest_arguments("[")


def test_arguments_that_are_nested_too_deep_to_be_written_have_a_digest() -> None:
    deep = '{"a":' * 400 + "1" + "}" * 400
    assert digest_arguments(deep) == digest_arguments(deep)
    assert digest_arguments(deep) != digest_arguments(deep.replace("1", "2"))
    assert digest_arguments("\ud800") != digest_arguments("\ud801")


def test_a_server_with_a_prefix_has_it_in_all_names() -> None:
    tool = replace(hosted_tool(), prefix="reckon")
    catalogue = ToolCatalogue.build([tool])
    assert [*catalogue.tools] == ["reckon_add"]
    assert catalogue.name_of(ToolKey("calc", "add")) == "reckon_add"
    assert catalogue.name_of(ToolKey("calc", "removed")) == "reckon_removed"
    assert catalogue.guess_key("reckon_removed") == ToolKey("calc", "removed")
    assert catalogue.guess_key("calc_add") == ToolKey("calc", "calc_add")


def test_a_server_with_an_empty_prefix_has_none() -> None:
    catalogue = ToolCatalogue.build([replace(hosted_tool(), prefix="")], ["other"])
    assert [*catalogue.tools] == ["add"]
    assert catalogue.guess_key("calc_add") == ToolKey("calc", "calc_add")


def test_tools_have_the_names_of_the_training_and_the_form_of_their_arguments() -> None:
    trained = replace(hosted_tool("search"), trained_name="browser.search", adapt_arguments=str.upper)
    catalogue = ToolCatalogue.build([trained, hosted_tool("add")], ["calc_search"])
    name = catalogue.name_of(trained.key)
    assert name != "calc_search", "the client's function keeps its name"
    assert catalogue.trained_names == {name: "browser.search"}
    assert catalogue.adapt_arguments(trained.key, "{}x") == "{}X"
    assert catalogue.adapt_arguments(ToolKey("calc", "add"), "{}x") == "{}x"
    assert catalogue.adapt_arguments(ToolKey("other", "tool"), "{}x") == "{}x"
