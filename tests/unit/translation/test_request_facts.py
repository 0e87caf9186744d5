"""What the facts of a request say together."""

import pytest

from translation.request_facts import ContextFacts, RequestFacts


@pytest.mark.parametrize(
    ("context", "is_compacted", "is_managed"),
    [
        (ContextFacts(), False, False),
        (ContextFacts(is_compacted=True), True, True),
        (ContextFacts(has_trigger=True), True, True),
        (ContextFacts(is_truncated=True), False, True),
    ],
)
def test_truncation_manages_a_context_without_its_compaction(
    context: ContextFacts, is_compacted: bool, is_managed: bool
) -> None:
    assert (context.needs_compaction, context.is_managed) == (is_compacted, is_managed)


def test_a_copy_has_the_same_facts_and_changes_alone() -> None:
    facts = RequestFacts(cache_key="a", adds_stop=True)
    copy = facts.copy()
    assert copy == facts
    copy.cache_key = "b"
    assert facts == RequestFacts(cache_key="a", adds_stop=True)
