"""vLLM's own tool parsers. Not in `library`, because this part of vLLM moves most and only `vllm:` parsers need it."""

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.parser_manager import ParserManager

__all__ = ["ChatCompletionRequest", "ParserManager"]
