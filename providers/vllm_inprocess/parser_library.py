"""The names of vLLM's tool parsers. They are separate from `library` because this part of vLLM changes most often, and
only `vllm:` parsers need it."""

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.parser_manager import ParserManager

__all__ = ["ChatCompletionRequest", "ParserManager"]
