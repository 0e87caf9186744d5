"""The shapes of web searches for models. This is the only place that decides which shape a model gets."""

from collections.abc import Collection, Mapping
from typing import Final

from gateway.tools.web_search.browser_shape import BrowserShape
from gateway.tools.web_search.function_shape import FunctionShape
from gateway.tools.web_search.shape import SearchShape, TextBounds
from translation.hosted.citations.citation_table import CitationTable

_TRAINED_SHAPES: Final[Mapping[str, type[BrowserShape]]] = {BrowserShape.name: BrowserShape}
"""The name of a tool that models know from their training -> its shape."""


def find_shape(trained_tools: Collection[str]) -> type[BrowserShape] | type[FunctionShape]:
    """Returns the shape for a model that knows these tools from its training."""
    return next((_TRAINED_SHAPES[name] for name in sorted(trained_tools) if name in _TRAINED_SHAPES), FunctionShape)


def build_shape(trained_tools: Collection[str], citations: CitationTable, bounds: TextBounds) -> SearchShape:
    """Returns the shape for one response, whose model knows these tools from its training."""
    return find_shape(trained_tools)(citations, bounds)
