"""Hosted searches of LangChain: `langchain_searches.py CASE`, with BASE_URL, MODEL and STORE_ID in the environment."""

import json
import os
import sys
from typing import Any

from langchain_openai import ChatOpenAI

TOOLS: dict[str, Any] = {
    "web": lambda: {"type": "web_search"},
    "files": lambda: {"type": "file_search", "vector_store_ids": [os.environ["STORE_ID"]]},
}

kind, _, streamed = sys.argv[1].partition("_")
model = ChatOpenAI(
    model=os.environ["MODEL"],
    base_url=os.environ["BASE_URL"],
    api_key="none",
    use_responses_api=True,
    output_version="responses/v1",
    max_retries=0,
).bind_tools([TOOLS[kind]()])
if streamed:
    chunks = [*model.stream("Does it rain?")]
    message = chunks[0]
    for chunk in chunks[1:]:
        message += chunk
else:
    message = model.invoke("Does it rain?")
blocks = [block for block in message.content if isinstance(block, dict)]
texts = [block for block in blocks if block["type"] == "text"]
print(
    json.dumps(
        {
            "text": message.text if isinstance(message.text, str) else message.text(),
            "items": [block["type"] for block in blocks],
            "annotations": [note for block in texts for note in block.get("annotations", ())],
        }
    )
)
