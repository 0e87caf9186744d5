"""Every list that has one entry for each API is complete: what a new dialect needs fails here by the list's name."""

import tomllib
from collections.abc import Collection
from pathlib import Path

import pytest

from providers.http.dialects import DIALECTS
from scripts.check_choices import _TYPE_HOMES
from scripts.docs.parameters import _UPSTREAMS
from tests.unit.gateway.planning.every_field.upstream_requests import UPSTREAMS
from tests.unit.support.recorded_replies import _DECODERS

ROOT = Path(__file__).parents[3]
CONTRACTS = {
    contract["name"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}
OPENAI_APIS = {"chat", "responses"}


def name_packages(modules: Collection[str]) -> set[str]:
    return {module.split(".")[1] for module in modules}


API_FOLDERS = set(CONTRACTS["the packages of translation are layers"]["layers"][0].split(" | "))
TWO_WAY_FOLDERS = {package.parts[-3] for package in ROOT.glob("translation/*/upstream/__init__.py")}
UPSTREAM_FOLDERS = {spec.lower.__module__.split(".")[1] for spec in DIALECTS.values()}
LISTS = {
    "requests of every field": (UPSTREAMS.keys(), DIALECTS.keys()),
    "recorded replies": (_DECODERS.keys(), DIALECTS.keys()),
    "the page about parameters": (
        {upstream.lower.__module__ for upstream in _UPSTREAMS},
        {spec.lower.__module__ for spec in DIALECTS.values()},
    ),
    "packages that may compare the types of their upstreams": (
        {home.name for home in _TYPE_HOMES},
        UPSTREAM_FOLDERS - OPENAI_APIS,
    ),
    "the contract about the two directions of an API": (
        name_packages(
            CONTRACTS["the packages of one API are layers, and its two directions know nothing of each other"][
                "containers"
            ]
        ),
        TWO_WAY_FOLDERS,
    ),
    "the contract of the data plane": (
        name_packages(CONTRACTS["the data plane knows delta runs and no dialect"]["forbidden_modules"]),
        API_FOLDERS,
    ),
    "the contract of the layers below the APIs": (
        name_packages(
            CONTRACTS["the layers below the APIs of clients know none of them but the words of the Responses API"][
                "forbidden_modules"
            ]
        ),
        API_FOLDERS - {"responses"},
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_dialects_has_all_of_them(name: str):
    listed, expected = LISTS[name]
    assert set(expected) - set(listed) == set()
