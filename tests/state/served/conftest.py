"""Clients of the module's `gateway`."""

from collections.abc import Iterator

import httpx
import pytest
from openai import OpenAI

from tests.serving import Gateway


@pytest.fixture
def client(gateway: Gateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=gateway.v1, api_key="none", max_retries=0, _strict_response_validation=True) as client:
        yield client


@pytest.fixture
def http(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.v1, timeout=60) as client:
        yield client
