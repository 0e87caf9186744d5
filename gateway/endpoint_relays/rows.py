"""The table of the endpoints that are relayed: one row each."""

from typing import Final, NamedTuple

from providers.endpoints import ENDPOINT_PATHS, EndpointName


class EndpointRow(NamedTuple):
    """One endpoint: the form of its requests and replies."""

    name: EndpointName
    tag: str
    summary: str
    takes_form: bool = False
    """Whether the body is a multipart form. Otherwise it is one JSON object. Both name the model in `model`."""
    replies_json: bool = True
    """Whether a reply that is not an event stream is JSON. Otherwise it is audio, or text."""

    @property
    def path(self) -> str:
        return ENDPOINT_PATHS[self.name]


EMBEDDINGS: Final = EndpointRow("embeddings", "Embeddings", "Create embeddings of texts.")

ENDPOINT_ROWS: Final = (
    EMBEDDINGS,
    EndpointRow("completions", "Completions", "Complete a prompt, as JSON or as a stream with `stream: true`."),
    EndpointRow("rerank", "Rerank", "Sort documents by their relevance to a query."),
    EndpointRow("moderations", "Moderations", "Classify texts and images that may be harmful."),
    EndpointRow("speech", "Audio", "Speak a text: audio, or a stream of events.", replies_json=False),
    EndpointRow("transcriptions", "Audio", "Write down what is said in a file.", takes_form=True, replies_json=False),
    EndpointRow("translations", "Audio", "Translate what is said in a file.", takes_form=True, replies_json=False),
    EndpointRow("image_generations", "Images", "Create images from a prompt."),
    EndpointRow("image_edits", "Images", "Edit images by a prompt.", takes_form=True),
    EndpointRow("image_variations", "Images", "Create variations of an image.", takes_form=True),
    EndpointRow("tokenize", "Tokens", "Split a text into tokens, as the model's upstream does."),
    EndpointRow("detokenize", "Tokens", "Join tokens to a text, as the model's upstream does."),
)
