"""The calls of a reply on their way to the client: each under an id of its own, no more than allowed, faults noted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from translation.hygiene.past_calls import ids_in, with_ids_in_details
from translation.parsers.text_calls import WARNINGS
from translation.representation import items
from translation.representation.events import (
    Annotated,
    Delta,
    Event,
    Failed,
    Finished,
    ItemEnded,
    ItemStarted,
    Noted,
    Opaque,
    PartEnded,
    PartStarted,
    Progressed,
)
from translation.representation.items import CALL_TYPES, NewId
from translation.representation.json_types import Item
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.tools.arguments import fault_in, unfenced
from translation.tools.call_ids import CallIds

_Inner: TypeAlias = Delta | PartStarted | PartEnded | ItemEnded | Annotated | Progressed

_NO_ANSWER: Final = "The model ended its turn without an answer."


@dataclass(slots=True, eq=False)
class _Call:
    """A call that is under way."""

    call_id: str
    name: str
    judged: bool
    texts: list[str] = field(default_factory=list)
    held: bool | None = None
    """Its text is kept back, because it may be JSON between fences; `None`: nothing but blanks was said so far."""


class ReplyTidier:
    """Feed it every batch; text goes through untouched. `then` is what the batch is given to afterwards.

    An id that a call of the history has, or another of this reply, is changed, and in what is signed for it too. JSON
    between fences is taken out of them. Arguments that cannot be read stay as they are, and calls over the profile's
    number are left out: both are noted (`WARNINGS`) before the end.
    """

    def __init__(
        self,
        turn: Turn,
        profile: Profile,
        new_id: NewId,
        then: Callable[[Sequence[Event]], Sequence[Event]] | None = None,
    ) -> None:
        self._ids = CallIds(ids_in(turn.items))
        self._most = profile.max_tool_calls_per_turn
        self._max_bytes = profile.max_tool_args_bytes
        # Calls that are read out of text are judged as they are read.
        self._judges = profile.tool_parser == "openai" and profile.text_tool_calls == "none"
        self._listens = profile.fix_empty_final
        """Nothing was said yet, and an answer of nothing is to be fixed."""
        self._new_id = new_id
        self._then = then
        self._open: dict[int, _Call] = {}
        self._promised: dict[str, str] = {}
        """Ids in details whose calls are yet to come."""
        self._numbers: dict[int, int] = {}
        """The upstream's number of an item -> ours; what is left out has none."""
        self._calls = 0
        self._left_out = False
        self._changed = False
        self._thinking: set[int] = set()
        self._thoughts: list[str] = []
        self._warnings: list[object] = []

    def feed(self, batch: Sequence[Event]) -> Sequence[Event]:
        """The batch as the client gets it."""
        tidy = batch
        # Nine in ten batches are text and nothing else. A loop, because `all` costs as much again.
        for event in batch:
            if type(event) is not Delta or event.part_index is None or self._looks_at_text:
                tidy = self._tidied(batch)
                break
        return tidy if self._then is None else self._then(tidy)

    @property
    def _looks_at_text(self) -> bool:
        return self._left_out or self._listens

    def _tidied(self, batch: Sequence[Event]) -> list[Event]:
        events: list[Event] = []
        for event in batch:
            match event:
                case Delta() | PartStarted() | PartEnded() | ItemEnded() | Annotated() | Progressed():
                    if event.index in self._open:
                        self._go_on(self._open[event.index], event, events)
                    elif event.index in self._numbers:
                        self._pass(event, events)
                case ItemStarted():
                    self._start(event, events)
                case Noted():
                    self._note(event, events)
                case Finished():
                    self._finish(event, events)
                case Failed():
                    for index, call in self._open.items():
                        self._release(call, self._numbers[index], events)
                    self._warn(events)
                    events.append(event)
                case Opaque(index=int(index)):
                    if index in self._numbers:
                        events.append(replace(event, index=self._numbers[index]))
                case _:
                    events.append(event)
        return events

    def _start(self, event: ItemStarted, out: list[Event]) -> None:
        item = event.item
        is_call = item["type"] in CALL_TYPES
        if is_call and self._calls == self._most:
            self._left_out = self._changed = True
            why = f"the turn may have {self._most} calls, and this is one more"
            self._warnings.append({"name": item["name"], "why": why})
            return
        self._numbers[event.index] = number = len(self._numbers)
        if is_call:
            self._calls += 1
            item = self._under_own_id(item)
            said = item.get("arguments") or ""
            judged = self._judges and item["type"] == "function_call"
            self._open[event.index] = _Call(
                item["call_id"], item["name"], judged, [said] if said else [], False if said else None
            )
        elif item["type"] == "reasoning":
            self._thinking.add(event.index)
        if item["type"] not in ("reasoning", "message"):
            self._listens = False
        out.append(ItemStarted(number, item))

    def _under_own_id(self, item: Item) -> Item:
        said = item["call_id"]
        own = self._promised.pop(said, None) or self._ids.take(said)
        if own == said:
            return item
        self._changed = True
        return {**item, "call_id": own}

    def _go_on(self, call: _Call, event: _Inner, out: list[Event]) -> None:
        """An event of a call that is under way."""
        number = self._numbers[event.index]
        if isinstance(event, Delta) and call.judged:
            call.texts.append(event.text)
            if call.held is None and (said := event.text.strip()):
                call.held = said.startswith("`")
                event = replace(event, text="".join(call.texts))
            if call.held is not False:
                return
        elif isinstance(event, PartEnded):
            self._release(call, number, out)
            if event.part is not None and call.judged and isinstance(whole := event.part.get("arguments"), str):
                event = replace(event, part={**event.part, "arguments": unfenced(whole)})
        elif isinstance(event, ItemEnded):
            self._release(call, number, out)
            del self._open[event.index]
            if event.item is not None:
                event = replace(event, item=self._ended(event.item, call))
            self._judge(call, event)
        out.append(_numbered(event, number))

    def _release(self, call: _Call, number: int, out: list[Event]) -> None:
        """Say what was held back."""
        if call.judged and call.held is not False and call.texts:
            call.texts[:] = [unfenced("".join(call.texts))]
            out.append(Delta(number, None, call.texts[0]))
        call.held = False

    def _ended(self, item: Item, call: _Call) -> Item:
        ended = {**item, "call_id": call.call_id}
        if call.judged and isinstance(said := item.get("arguments"), str):
            ended["arguments"] = unfenced(said)
            call.texts[:] = [ended["arguments"]]
        return ended

    def _judge(self, call: _Call, event: ItemEnded) -> None:
        """Note arguments that no client can read. A call that was cut says so itself."""
        status = event.status if event.item is None else event.item.get("status")
        if not call.judged or status == "incomplete":
            return
        if why := fault_in("".join(call.texts), self._max_bytes):
            self._warnings.append({"name": call.name, "why": why})

    def _pass(self, event: _Inner, out: list[Event]) -> None:
        """An event of any other item."""
        if isinstance(event, ItemEnded) and event.item is not None and isinstance(event.item.get("details"), list):
            for detail in event.item["details"]:
                self._promise(detail)
            event = replace(event, item=with_ids_in_details(event.item, self._promised))
        elif self._listens and isinstance(event, Delta):
            if event.index in self._thinking:
                self._thoughts.append(event.text)
            elif event.text.strip():
                self._listens = False
        elif isinstance(event, ItemEnded) and event.item is not None and event.item["type"] == "message":
            self._listens = self._listens and not event.item["content"]
        out.append(_numbered(event, self._numbers[event.index]))

    def _promise(self, detail: object) -> None:
        match detail:
            case {"call_id": str(call_id)}:
                self._promised[call_id] = self._ids.take(call_id)

    def _note(self, event: Noted, out: list[Event]) -> None:
        """All warnings are noted at once, at the end."""
        facts = event.facts or {}
        if WARNINGS in facts:
            self._warnings += facts[WARNINGS]
            event = replace(event, facts={key: fact for key, fact in facts.items() if key != WARNINGS} or None)
        if event.usage is not None or event.facts:
            out.append(event)

    def _warn(self, out: list[Event]) -> None:
        if self._warnings:
            out.append(Noted(facts={WARNINGS: self._warnings}))

    def _finish(self, event: Finished, out: list[Event]) -> None:
        if self._listens and event.reason == "stop":
            self._changed = True
            number = len(self._numbers)
            text = "".join(self._thoughts).strip() or _NO_ANSWER
            out += [
                ItemStarted(number, items.message(self._new_id(items.ID_PREFIXES["message"]))),
                PartStarted(number, 0, items.output_text()),
                Delta(number, 0, text),
                PartEnded(number, 0),
                ItemEnded(number),
            ]
        self._warn(out)
        if self._changed and event.response is not None:
            # The upstream's own snapshot does not know what was changed.
            event = replace(event, response={key: said for key, said in event.response.items() if key != "output"})
        out.append(event)


def _numbered(event: _Inner, number: int) -> _Inner:
    return event if event.index == number else replace(event, index=number)
