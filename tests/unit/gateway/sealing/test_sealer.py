"""Sealed data can be unsealed with the key only, for its owner only, and only unmodified."""

import pytest

from gateway.errors import StoreUnavailable
from gateway.sealing.sealer import SEAL_PREFIX, Sealer, UnsealFailed, generate_key, is_sealed

OLD, NEW = b"o" * 32, b"n" * 32
HELD = b'{"a":"\xc3\xa4"}'


def test_sealed_data_can_be_unsealed_and_not_read() -> None:
    sealer = Sealer([OLD])
    text = sealer.seal(HELD, "ann")
    assert text is not None
    assert is_sealed(text)
    assert text.startswith(f"{SEAL_PREFIX}1.")
    assert text.isascii()
    assert sealer.unseal(text, "ann") == HELD
    assert Sealer([OLD]).unseal(text, "ann") == HELD
    assert text != sealer.seal(HELD, "ann")


def test_the_first_key_seals_and_all_open() -> None:
    before = str(Sealer([OLD]).seal(HELD, "ann"))
    rotated = Sealer([NEW, OLD])
    after = str(rotated.seal(HELD, "ann"))
    assert rotated.unseal(before, "ann") == rotated.unseal(after, "ann") == HELD
    assert Sealer([NEW]).unseal(after, "ann") == HELD
    with pytest.raises(UnsealFailed):
        Sealer([NEW]).unseal(before, "ann")


@pytest.mark.parametrize("owner", ["bob", "", "Ann", "ann "])
def test_seals_of_another_owner_cannot_be_unsealed(owner: str) -> None:
    sealer = Sealer([OLD])
    with pytest.raises(UnsealFailed):
        sealer.unseal(str(sealer.seal(HELD, "ann")), owner)


def test_a_change_at_any_place_is_found() -> None:
    # Three lengths, since the last letter of each holds another number of bits.
    for held in (HELD, HELD + b"x", HELD + b"xy"):
        sealer = Sealer([OLD])
        text = str(sealer.seal(held, "ann"))
        for place, letter in enumerate(text):
            for other in ("A", "B", "_", ".", " ", "=", "é", ""):
                if other != letter:
                    with pytest.raises(UnsealFailed):
                        sealer.unseal(text[:place] + other + text[place + 1 :], "ann")


@pytest.mark.parametrize(
    "text",
    [
        "",
        SEAL_PREFIX,
        f"{SEAL_PREFIX}1",
        f"{SEAL_PREFIX}1..",
        f"{SEAL_PREFIX}1.0.AAAA",
        f"{SEAL_PREFIX}2.x.y",
        "gAAAA",
        "ß",
    ],
)
def test_unsealed_text_is_reported_as_such(text: str) -> None:
    with pytest.raises(UnsealFailed):
        Sealer([OLD]).unseal(text, "ann")


def test_a_cut_text_cannot_be_opened() -> None:
    sealer = Sealer([OLD])
    text = str(sealer.seal(HELD, "ann"))
    for length in range(len(text)):
        with pytest.raises(UnsealFailed):
            sealer.unseal(text[:length], "ann")


def test_a_late_key_is_used_from_then_on() -> None:
    text = str(Sealer([NEW]).seal(HELD, "ann"))
    known: list[bytes] = []
    sealer = Sealer([], lambda: known[0] if known else None)
    assert sealer.seal(HELD, "ann") is None
    with pytest.raises(StoreUnavailable):
        sealer.unseal(text, "ann")
    known.append(NEW)
    assert sealer.unseal(text, "ann") == HELD
    assert Sealer([NEW]).unseal(str(sealer.seal(HELD, "ann")), "ann") == HELD
    with pytest.raises(UnsealFailed):
        sealer.unseal(str(Sealer([OLD]).seal(HELD, "ann")), "ann")


def test_seals_of_a_configured_key_do_not_wait_for_the_stores_key() -> None:
    sealer = Sealer([OLD], lambda: None)
    assert sealer.unseal(str(sealer.seal(HELD, "ann")), "ann") == HELD


def test_no_two_new_keys_are_the_same() -> None:
    assert generate_key() != generate_key()
