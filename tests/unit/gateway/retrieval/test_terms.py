"""Texts are found by the words that people ask with, in the scripts that they write."""

from collections.abc import Iterator
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.retrieval import terms as terms_module
from gateway.retrieval.terms import MAX_QUERY_TERMS, find_query_terms, iterate_index_terms, normalize_text, stem_word


@pytest.mark.parametrize(
    ("text", "found", "missed"),
    [
        ("The cached replies were stored.", ["cache", "CACHING", "reply", "store", "stores"], ["rest", "plies"]),
        ("Die Straßen von Köln", ["STRASSEN", "koln", "Köln"], ["Stra"]),
        ("L'été à la plage", ["ete", "ÉTÉ", "plages"], ["tage"]),
        ("El niño comió piñas", ["nino", "pinas", "COMIO"], ["uva"]),
        ("Zażółć gęślą jaźń", ["zazołc", "jazn", "GĘŚLĄ"], ["noc"]),
        ("Привет, мир! Ёлка", ["МИР", "елка", "привет"], ["война"]),
        ("Καλημέρα κόσμε", ["ΚΌΣΜΕ", "καλημερα"], ["νύχτα"]),
        ("שָׁלוֹם עולם", ["שלום", "עולם"], ["מלחמה"]),
        ("السَّلَامُ عَلَيْكُمْ", ["السلام", "عليكم"], ["حرب"]),
        ("नमस्ते दुनिया", ["दुनिया", "नमस्ते"], ["युद्ध"]),
        ("東京都の天気は晴れです", ["天気", "東京", "東京都", "晴", "都の天"], ["京東", "雨"]),
        ("ｶﾀｶﾅとカタカナ", ["カタカナ", "ｶﾀ"], ["ひら"]),
        ("北京大学图书馆", ["大学", "图书馆", "北"], ["学大", "南"]),
        ("한국어 문장입니다", ["한국어", "문장"], ["일본"]),
        ("สวัสดีชาวโลก", ["ชาวโลก", "สวัสดี"], ["แมว"]),
        ("សួស្តីពិភពលោក", ["ពិភពលោក", "សួស្តី"], ["ឆ្មា"]),
        ("ສະບາຍດີຊາວໂລກ", ["ຊາວໂລກ", "ສະບາຍດີ"], ["ແມວ"]),
        ("မင်္ဂလာပါ ကမ္ဘာကြီး", ["ကမ္ဘာကြီး", "မင်္ဂလာပါ"], ["ကြောင်"]),
        ("Tiếng Việt rất đẹp", ["tieng", "VIỆT"], ["xau"]),
        ("call get_user_by_id(x1) in HTTP2Server", ["get_user_by_id", "http2server", "X1", "user"], ["post"]),
        ("\uff26\uff55\uff4c\uff4cwidth \ufb01le \u2116 5", ["fullwidth", "file", "5"], ["half"]),
    ],
)
def test_words_are_found_in_their_language(text: str, found: list[str], missed: list[str]) -> None:
    terms = set(iterate_index_terms(text))
    for query in found:
        assert (wanted := find_query_terms(query))
        assert set(wanted) <= terms, query
    for query in missed:
        assert not set(find_query_terms(query)) <= terms, query


@pytest.mark.parametrize(
    ("words", "stem"),
    [
        ("cache caches cached caching", "cach"),
        ("run runs running", "run"),
        ("city cities", "citi"),
        ("class classes", "class"),
        ("box boxes", "box"),
        ("speed", "speed"),
        ("string strings", "string"),
        ("call calls called calling", "call"),
        ("status", "status"),
        ("red", "red"),
        ("h2o2s", "h2o2s"),
    ],
)
def test_usual_endings_are_cut(words: str, stem: str) -> None:
    assert {stem_word(word) for word in words.split()} == {stem}


@pytest.mark.parametrize("query", ["", " ", '"*" - () :', "\0", "\u2026\uff01\uff1f"])
def test_signs_are_no_terms(query: str) -> None:
    assert find_query_terms(query) == []


@given(st.text(max_size=200))
def test_terms_have_only_signs_that_every_index_takes_as_they_are(text: str) -> None:
    for term in (*iterate_index_terms(text), *find_query_terms(text)):
        assert term.isascii()
        assert term.isalnum()
        assert term == term.lower()
        assert len(term) <= 1 + 8 * 64


@given(st.text(max_size=60))
def test_a_text_is_found_by_itself(text: str) -> None:
    assert set(find_query_terms(text)) <= set(iterate_index_terms(text))


def test_a_query_has_a_bound() -> None:
    terms = find_query_terms(" ".join(f"word{n}" for n in range(500)) + "猫" * 500)
    assert len(terms) == MAX_QUERY_TERMS
    assert terms[0] == "aword0"


@given(
    st.text(alphabet=st.sampled_from("ab1 \n.,。日本語ขعָ́éÅﬁ\u3099\u00a0" + "x" * 4), max_size=400),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 200)), max_size=8),
    st.integers(1, 60),
)
def test_terms_of_overlapping_slices_are_those_of_each_slice_alone(
    text: str, slices: list[tuple[int, int]], block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terms_module, "_BLOCK", block)
        terms = terms_module.ChunkTerms(text)
        for start, length in sorted(slices):
            alone = " ".join(iterate_index_terms(text[start : start + length]))
            assert terms.join(start, min(start + length, len(text))) == alone


def test_what_slices_have_in_common_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def iterate(text: str) -> Iterator[str]:
        read.append(len(text))
        return iterate_index_terms(text)

    monkeypatch.setattr(terms_module, "iterate_index_terms", iterate)
    text = "word, " * 20_000
    terms = terms_module.ChunkTerms(text)
    for start in range(0, len(text) - 6000, 3000):
        terms.join(start, start + 6000)
    assert sum(read) < 1.3 * len(text)


def test_a_text_of_many_marks_takes_no_longer_than_others() -> None:
    started = thread_time()
    assert normalize_text("é" + "\u0301\u0323" * 50_000 + "b") == "eb"
    assert thread_time() - started < 1.0
