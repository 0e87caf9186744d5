"""The loss header, and its limits."""

import pytest

from gateway.replies.loss_header import build_warning_losses, read_reply_warnings, report_losses
from translation.representation.loss import Loss

HEADERS: dict[str, tuple[list[Loss], str]] = {
    "one": ([Loss("seed", "dropped")], "seed=dropped"),
    "several": (
        [Loss("seed", "dropped"), Loss("tools[0]", "web_search left out")],
        "seed=dropped, tools[0]=web_search left out",
    ),
    "the same once": ([Loss("seed", "dropped")] * 2, "seed=dropped"),
    "no character that would end the header, or the entry": (
        [Loss("a\r\nSet-Cookie: b,c", "dropped")],
        "a??Set-Cookie: b?c=dropped",
    ),
    "no character beyond ASCII": ([Loss("größe", "dropped")], "gr??e=dropped"),
}


@pytest.mark.parametrize(("losses", "expected"), HEADERS.values(), ids=HEADERS)
def test_the_header_contains(losses: list[Loss], expected: str) -> None:
    assert report_losses(losses) == {"x-gateway-loss": expected}


def test_without_a_loss_there_is_no_header() -> None:
    assert report_losses([]) == {}


@pytest.mark.parametrize(
    "losses",
    [[Loss(f"parameter_{number}", "dropped") for number in range(500)], [Loss("x" * 100_000, "dropped")]],
    ids=["many", "one that is long"],
)
def test_losses_beyond_the_limit_are_counted(losses: list[Loss]) -> None:
    said = report_losses(losses)["x-gateway-loss"]
    assert len(said) < 2048
    *kept, rest = said.split(", ")
    assert rest == f"...={len(losses) - len(kept)} more"


def test_losses_beyond_the_limit_are_not_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[Loss] = []
    render = Loss.__str__

    def note(loss: Loss) -> str:
        rendered.append(loss)
        return render(loss)

    monkeypatch.setattr(Loss, "__str__", note)
    losses = [Loss(f"parameter_{number}", "dropped") for number in range(5_000)] * 2
    assert report_losses(losses)["x-gateway-loss"].endswith(f"...={5_000 - len(rendered) + 1} more")
    assert len(rendered) < 200


@pytest.mark.parametrize("expected", [None, "no list", [], ["f", {}, {"name": 5}]], ids=str)
def test_warnings_of_an_upstream_are_not_the_gateways(expected: object) -> None:
    assert read_reply_warnings({"tool_warnings": expected}) == []


def test_a_call_with_a_warning_is_a_loss_by_its_name() -> None:
    warnings = read_reply_warnings({"tool_warnings": [{"name": "f", "why": "secret"}, {"name": ""}]})
    assert build_warning_losses(warnings) == [
        Loss("tool_calls", "f has a warning"),
        Loss("tool_calls", "one has a warning"),
    ]
