"""A question about an uploaded PDF, answered by the demo model on the engine inside, with a citation.

The model was trained on no file search, and what it can and cannot do of one decides how it is asked:

- It finds neither the name of the tool nor a query by itself. A regular expression prescribes the call.
- Behind the instructions that follow the results of a search it no longer reads them. So the client asks again with the
  search and its results in its history, where they stand alone.
- It has never seen a marker, so the form of the answer is prescribed with the marker. The city and the weather are the
  model's: it finds them in the question and in the file, among all words of three to ten letters.

Everything else is what a user has: the PDF is parsed and indexed, and the engine writes the marker in pieces, because
each of its brackets is three tokens.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from tests.engine.engine_gateway import Hosted, hosted
from tests.unit.gateway.retrieval.parsing.documents import build_pdf

CALL = r'<tool_call>\n\{"name": "file_search", "arguments": \{"queries": \["weather report"\]\}\}\n</tool_call>'
ANSWER = r"The weather in [A-Z][a-z]{2,9}: [a-z]{3,9}, all day 【1】\."


@pytest.fixture(scope="module")
def searching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A gateway that keeps files, which that of the other tests does not."""
    folder = tmp_path_factory.mktemp("searching")
    store = {"url": f"sqlite+aiosqlite:///{folder / 'state.db'}"}
    with hosted({"tiny": {"provider": "local"}}, folder, store=store) as found:
        yield found


@pytest.fixture(scope="module")
def client(searching: Hosted) -> Iterator[OpenAI]:
    with OpenAI(base_url=searching.v1, api_key="none", max_retries=0, timeout=120) as found:
        yield found


@pytest.mark.parametrize(("city", "sky"), [("Rome", "foggy"), ("Paris", "rainy")])
def test_a_question_about_a_pdf_is_answered_with_a_citation(client: OpenAI, city: str, sky: str) -> None:
    report = client.files.create(
        file=("report.pdf", build_pdf(f"The weather in {city}: {sky}, all day"), "application/pdf"),
        purpose="assistants",
    )
    store = client.vector_stores.create(name="Reports")
    entry = client.vector_stores.files.create_and_poll(report.id, vector_store_id=store.id)
    assert entry.status == "completed"
    question: Any = {"role": "user", "content": f"What is the weather in {city}?"}
    tools: Any = [{"type": "file_search", "vector_store_ids": [store.id]}]
    asked: Any = {"model": "tiny", "temperature": 0, "tools": tools, "include": ["file_search_call.results"]}

    found = client.responses.create(
        **asked, input=[question], max_tool_calls=1, extra_body={"structured_outputs": {"regex": CALL}}
    )
    (search,) = [item for item in found.output if item.type == "file_search_call"]
    assert (search.status, search.queries) == ("completed", ["weather report"])
    assert [(result.file_id, result.text) for result in search.results or ()] == [
        (report.id, f"The weather in {city}: {sky}, all day")
    ]

    history: Any = [question, search.model_dump(exclude={"encrypted_content"}, exclude_none=True)]
    answer = ""
    cited_behind = []
    with client.responses.create(
        **asked, input=history, stream=True, extra_body={"structured_outputs": {"regex": ANSWER}}
    ) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                answer += event.delta
            elif event.type == "response.output_text.annotation.added":
                cited_behind.append(answer)
    assert event.type == "response.completed"
    (part,) = event.response.output[-1].content
    assert part.text == answer == f"The weather in {city}: {sky}, all day ."
    (citation,) = part.annotations
    assert (citation.type, citation.file_id, citation.filename) == ("file_citation", report.id, "report.pdf")
    assert answer[: citation.index].rstrip() == f"The weather in {city}: {sky}, all day"
    assert cited_behind == [answer[: citation.index]], "the citation was sent where it stands"
