"""All names of vLLM that the gateway uses. They are in one place because most of them move between monthly releases.

Importing this module imports vLLM and torch, which takes seconds and half a gigabyte of memory. Only a configured
provider of type `vllm_inprocess` imports it, in a thread.
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
    """Whether xgrammar can compile a structural tag. If it cannot, vLLM would fall back to a backend that does not
    support structural tags."""
    try:
        Grammar.from_structural_tag(tag)
    except Exception:  # its C++ code may raise anything
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
