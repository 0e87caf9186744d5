"""All that is used of vLLM itself, in one place, because most of it moves from month to month.

Importing this module imports vLLM and torch, which takes seconds and half a gigabyte: only a configured provider of
type `vllm_inprocess` does it, from a thread.
"""

from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.exceptions import GracefulHTTPError, VLLMClientError
from vllm.inputs import tokens_input
from vllm.renderers import ChatParams
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.structured_output.backend_xgrammar import has_xgrammar_unsupported_json_features
from xgrammar import Grammar


def reads_tag(tag: str) -> bool:
    """Whether a structural tag can be made a grammar of. Where not, vLLM would try a guide that reads no such tags."""
    try:
        Grammar.from_structural_tag(tag)
    except Exception:  # it raises whatever its C++ does
        return False
    return True


__all__ = [
    "AsyncEngineArgs",
    "AsyncLLM",
    "ChatParams",
    "EngineDeadError",
    "GracefulHTTPError",
    "RequestOutputKind",
    "SamplingParams",
    "StructuredOutputsParams",
    "VLLMClientError",
    "has_xgrammar_unsupported_json_features",
    "reads_tag",
    "tokens_input",
]
