"""Workers that keep dying stop their server; workers that die now and then do not."""

from gateway.process.workers import DeathCount


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_deaths_count_together_only_within_the_window() -> None:
    clock = Clock()
    deaths = DeathCount(2, 60.0, clock)
    for _ in range(20):
        clock.now += 30.0
        assert deaths.add(), "two in a minute, for ten minutes"
    clock.now += 10.0
    assert not deaths.add(), "the third within a minute"
    assert deaths.is_over


def test_without_any_deaths_allowed_the_first_stops_the_server() -> None:
    assert not DeathCount(0, 60.0).add()
