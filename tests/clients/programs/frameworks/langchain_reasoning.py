"""LangChain with a summary of reasoning: `langchain_reasoning.py CASE`, with BASE_URL and MODEL in the environment."""

import json
import os
import sys
from functools import reduce
from operator import add as plus

from langchain_openai import ChatOpenAI

MODEL = ChatOpenAI(
    model=os.environ["MODEL"],
    base_url=os.environ["BASE_URL"],
    api_key="none",
    max_retries=0,
    use_responses_api=True,
    reasoning={"summary": "auto"},
)


def streamed() -> object:
    return reduce(plus, MODEL.stream("Go on."))


message = MODEL.invoke("Go on.") if sys.argv[1] == "whole" else streamed()
blocks = [block["reasoning"] for block in message.content_blocks if block["type"] == "reasoning"]
print(json.dumps({"text": message.text, "thinking": blocks}))
