"""The soak distinguishes growth from scatter, and reports if it cannot."""

from random import Random

import pytest

from bench.soak.measurement import fit_trends, render_trends
from bench.soak.trend import fit_trend

TIMES = [float(second) for second in range(600)]


def noise(amount: float) -> list[float]:
    random = Random(1)
    return [random.uniform(-amount, amount) for _ in TIMES]


def test_a_line_has_its_slope_and_no_margin() -> None:
    found = fit_trend(TIMES, [100 + 2 * at for at in TIMES])
    assert found.slope == pytest.approx(2)
    assert found.margin == pytest.approx(0, abs=1e-9)
    assert found.verdict == "grows"


def test_the_margin_holds_the_slope_beneath_noise() -> None:
    found = fit_trend(TIMES, [100 + 0.05 * at + shift for at, shift in zip(TIMES, noise(20), strict=True)])
    assert abs(found.slope - 0.05) <= found.margin
    assert found.verdict == "grows"


def test_noise_around_a_level_is_flat() -> None:
    assert fit_trend(TIMES, [100 + shift for shift in noise(5)]).verdict == "flat"


def test_a_constant_series_is_flat() -> None:
    assert fit_trend(TIMES, [7.0] * len(TIMES)).verdict == "flat"
    assert fit_trend(TIMES, [0.0] * len(TIMES)).verdict == "flat"


def test_a_series_that_rose_and_stayed_has_filled() -> None:
    found = fit_trend(TIMES, [100 + min(at, 250) / 50 + shift for at, shift in zip(TIMES, noise(0.2), strict=True)])
    assert found.verdict == "filled"


def test_a_series_that_rises_ever_slower_grows() -> None:
    assert fit_trend(TIMES, [100 + min(at, 300) / 20 + at / 100 for at in TIMES]).verdict == "grows"


def test_a_falling_series_is_flat() -> None:
    assert fit_trend(TIMES, [1000 - at for at in TIMES]).verdict == "flat"


def test_a_slope_that_may_be_anything_is_not_called_flat() -> None:
    assert fit_trend(TIMES, [100 + shift for shift in noise(300)]).verdict == "too noisy to say"


def test_growth_that_does_not_matter_is_flat() -> None:
    assert fit_trend(TIMES, [100 + 0.001 * at for at in TIMES]).verdict == "flat"


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="9 samples are too few"):
        fit_trend(TIMES[:9], TIMES[:9])


def test_the_warm_up_is_no_part_of_the_trend() -> None:
    samples = [[at, min(at, 100.0), 20.0, 10.0, 5.0, 8.0, 0.0] for at in TIMES]
    assert {name: found.verdict for name, found in fit_trends(samples).items()} == dict.fromkeys(
        ("memory, MiB", "open files", "sockets", "threads", "tasks", "rows"), "flat"
    )


def test_the_table_reports_growth() -> None:
    samples = [[at, at, 20.0, 10.0, 5.0, 8.0, 0.0] for at in TIMES]
    _, _, memory, files, *_ = (line.split() for line in render_trends(fit_trends(samples)).splitlines())
    assert memory == ["memory,", "MiB", *memory[2:-1], "grows"]
    assert float(memory[3].replace(",", "")) == pytest.approx(3600)
    assert files[-1] == "flat"
