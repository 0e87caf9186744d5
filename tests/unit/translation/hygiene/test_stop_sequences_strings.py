"""Text is cut at the first complete stop string, and no text is lost if there is none."""

from hypothesis import given
from hypothesis import strategies as st

from translation.hygiene.stop_sequences import StopStrings


@given(st.lists(st.text("ab", max_size=3), max_size=8), st.lists(st.text("ab", max_size=3), max_size=3))
def test_text_is_cut_at_the_first_complete_stop_string_however_it_is_split(pieces: list[str], stop: list[str]) -> None:
    stops = StopStrings(stop)
    text = "".join(map(stops.feed, pieces)) + stops.finish()
    whole = "".join(pieces)
    matches = [(whole.find(each) + len(each), whole.find(each), each) for each in stop if each and each in whole]
    assert stops.met == (min(matches)[2] if matches else None)
    assert text == (whole[: min(matches)[1]] if matches else whole)
