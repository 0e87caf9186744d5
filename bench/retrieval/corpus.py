"""A generated set of documents and questions: each question has one right document, and some of its subject.

The questions of the first kind are asked with the words of the document, bent and in another order. Those of the second
kind use other words for its subject and for what is asked.
"""

import random
from collections.abc import Sequence
from itertools import product
from typing import Final, NamedTuple

RIGHT: Final = 3
RELATED: Final = 1
"""How relevant the right document is, and the others of its subject."""

_SUBJECTS: Final = (
    ("espresso machine", "coffee maker"),
    ("electric bicycle", "e-bike"),
    ("dishwasher", "appliance for washing plates"),
    ("garden hose", "watering pipe"),
    ("smoke detector", "fire alarm"),
    ("sewing machine", "stitching device"),
    ("lawn mower", "grass cutter"),
    ("wireless headphones", "bluetooth earphones"),
    ("camping tent", "outdoor shelter"),
    ("solar panel", "photovoltaic module"),
    ("baby stroller", "pushchair for infants"),
    ("table lamp", "desk light"),
    ("water heater", "boiler"),
    ("security camera", "surveillance video device"),
    ("office chair", "swivel seat for work"),
    ("aquarium filter", "fish tank cleaner"),
    ("snow blower", "winter clearing machine"),
    ("bread oven", "baking stove"),
    ("hearing aid", "device for deaf people"),
    ("inflatable boat", "rubber dinghy"),
)

_ASPECTS: Final = (
    (
        "cleaning",
        "Clean it every {n} weeks with a soft brush and mild soap. Remove the {part} first, rinse it under running "
        "water and let it dry.",
        "How often must the {subject} be cleaned, and with which brush?",
        "What is the washing routine for my {other}?",
    ),
    (
        "guarantee",
        "The manufacturer guarantees it for {n} months. Claims need the receipt; damage of the {part} by the owner is "
        "not covered.",
        "For how many months does the manufacturer guarantee the {subject}?",
        "How long is the warranty of a {other}?",
    ),
    (
        "assembly",
        "Two people assemble it in {n} minutes. Fasten the {part} with the long screws before you tighten the others.",
        "Which screws fasten the {part} when I assemble the {subject}?",
        "Instructions for putting together a {other}",
    ),
    (
        "storage",
        "Store it in a dry room between 5 and {n} degrees. Cover the {part}, and never stack anything on top.",
        "In what room and at which degrees do I store the {subject}?",
        "Where should the {other} be kept over the winter?",
    ),
)

_PARTS: Final = ("valve", "cover", "handle", "hinge", "cable", "frame", "nozzle", "battery", "lid", "strap")
_FILLERS: Final = (
    "Read all instructions before the first use, and keep them for later.",
    "Children may use it only under the supervision of adults.",
    "Spare parts can be ordered from the service department by telephone.",
    "Do not open the housing yourself: ask a workshop instead.",
    "The colour may differ from the pictures of this manual.",
    "Recycle the packaging according to the rules of your town.",
    "Wear gloves, and work on a clean and level surface.",
    "If it makes unusual noises, stop and look for loose pieces.",
)


class ManualPage(NamedTuple):
    """A document and its id."""

    id: str
    text: str


class Question(NamedTuple):
    """A question, and how relevant documents are to it by their ids. Others are not."""

    text: str
    relevance: dict[str, int]


class QuestionSet(NamedTuple):
    """Documents, and questions of two kinds."""

    documents: Sequence[ManualPage]
    same_words: Sequence[Question]
    other_words: Sequence[Question]


def generate_corpus(seed: int = 34) -> QuestionSet:
    """Returns 80 documents and 60 questions of each kind. Equal seeds give equal sets."""
    chance = random.Random(seed)
    documents, same_words, other_words = [], [], []
    for (number, (subject, other)), aspect in product(enumerate(_SUBJECTS), range(len(_ASPECTS))):
        title, fact, question, rephrased = _ASPECTS[aspect]
        part = chance.choice(_PARTS)
        before, after = chance.sample(_FILLERS, 3), chance.sample(_FILLERS, 2)
        text = " ".join(
            (f"{subject.capitalize()}: {title}.", *before, fact.format(n=chance.randrange(6, 60), part=part), *after)
        )
        documents.append(ManualPage(f"{number}-{aspect}", text))
        relevance = {f"{number}-{each}": RELATED for each in range(len(_ASPECTS))} | {f"{number}-{aspect}": RIGHT}
        same_words.append(Question(question.format(subject=subject, part=part), relevance))
        other_words.append(Question(rephrased.format(other=other), relevance))
    chosen = chance.sample(range(len(documents)), 60)
    return QuestionSet(documents, [same_words[n] for n in chosen], [other_words[n] for n in chosen])
