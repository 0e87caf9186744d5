"""The CPU of scrapes is that of the windows with scrapes, less that of those without."""

from bench.scenarios.scrapes import ScrapeCost, measure_scrapes


def test_the_cost_is_a_share_of_a_core() -> None:
    lines = ScrapeCost(series=3000, load_share=0.05, scrape_s=0.015).describe().splitlines()
    assert lines == [
        "3000 values; the load alone takes 5% of a core",
        "  15.0 ms of CPU for a scrape",
        "  1.50% of a core, scraped every second",
        "  0.10% of a core, scraped every 15 s",
    ]


def test_a_server_is_scraped_under_load() -> None:
    cost = measure_scrapes(pairs=1, window_s=1.0, names=2)
    assert cost.series > 100
    assert cost.load_share > 0
