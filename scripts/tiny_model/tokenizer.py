"""A byte-level BPE tokenizer in the manner of Qwen3."""

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from scripts.tiny_model.conversations import Conversations
from scripts.tiny_model.samples import CHAT_TEMPLATE, Renderer, Sample, make_sample
from scripts.tiny_model.words import CITIES, HELLO_CODE, NAMES, STORY, UNICODE_ANSWER, WORDS

# Qwen3 marks only the ChatML tokens as special, so that decoding leaves <think> and <tool_call> in the text.
PAD = "<|endoftext|>"
END = "<|im_end|>"
SPECIAL_TOKENS = (PAD, "<|im_start|>", END)
PLAIN_TOKENS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")

_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
IGNORED = -100
"""The label that torch's cross entropy leaves out."""


def train_tokenizer(conversations: Conversations, render: Renderer, vocabulary: int) -> Tokenizer:
    """At most `vocabulary` tokens, learned from drawn conversations and the fixed words."""
    corpus: list[str] = []
    for _ in range(3000):
        sample = make_sample(conversations, render)
        # The unicode answer stays in bytes, so that there are characters which span several tokens.
        if UNICODE_ANSWER not in sample.answer:
            corpus.append(sample.prompt + "".join(piece.text for piece in sample.pieces))
    corpus += [*WORDS * 20, *[" " + word for word in WORDS] * 20, *[" " + name for name in (*CITIES, *NAMES)] * 20]
    corpus += [CHAT_TEMPLATE, HELLO_CODE, STORY]

    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(SPECIAL_TOKENS) - len(PLAIN_TOKENS),
        min_frequency=2,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in PLAIN_TOKENS])
    return tokenizer


def token_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


def encode_sample(tokenizer: Tokenizer, sample: Sample) -> tuple[list[int], list[int]]:
    """Token ids and labels; what is only read has the label that the loss ignores."""
    ids = token_ids(tokenizer, sample.prompt)
    labels = [IGNORED] * len(ids)
    for text, trained in sample.pieces:
        piece = token_ids(tokenizer, text)
        ids += piece
        labels += piece if trained else [IGNORED] * len(piece)
    return ids, labels
