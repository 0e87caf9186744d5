"""Random function tools, as chat/completions writes them."""

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from scripts.tiny_model.words import ARGUMENT_NAMES, CITIES, NAMES, TOOL_NAMES, WORDS

Json: TypeAlias = dict[str, Any]
T = TypeVar("T")


class Draws:
    """Random words, values and tools."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def pick(self, choices: Sequence[T]) -> T:
        return self.rng.choice(choices)

    def phrase(self, low: int = 1, high: int = 4) -> str:
        return " ".join(self.pick(WORDS) for _ in range(self.rng.randint(low, high)))

    def identifier(self) -> str:
        letters = "".join(self.pick("ABCDEFGHKLMNPQRSTXYZ") for _ in range(self.rng.randint(0, 2)))
        return letters + str(self.rng.randint(1, 9999))

    def value(self) -> str:
        kind = self.rng.random()
        if kind < 0.55:
            return self.phrase(1, 4)
        if kind < 0.8:
            return self.identifier()
        return self.pick([*CITIES, *NAMES])

    def description(self, hint: str) -> str:
        return self.phrase(2, 6) if self.rng.random() < 0.25 else hint

    def tool(self, name: str, arguments: Mapping[str, str], hint: str) -> Json:
        """A function tool with the small differences that clients and servers make in it."""
        properties: Json = {}
        for key, kind in arguments.items():
            properties[key] = {"type": kind}
            if self.rng.random() < 0.35:
                properties[key]["description"] = self.description(f"The {key}")
        parameters: Json = {"type": "object", "properties": properties}
        if self.rng.random() < 0.75:
            parameters["required"] = list(arguments)
        if self.rng.random() < 0.4:
            parameters["additionalProperties"] = False
        function: Json = {"name": name}
        if self.rng.random() < 0.8:
            function["description"] = self.description(hint)
        function["parameters"] = parameters
        if self.rng.random() < 0.2:
            function["strict"] = self.rng.random() < 0.5
        return {"type": "function", "function": function}

    def weather_tool(self) -> tuple[Json, str]:
        """The tool and the name of its argument."""
        key = "city" if self.rng.random() < 0.7 else "location"
        return self.tool("get_weather", {key: "string"}, "Get the weather in a city"), key

    def arithmetic_tool(self, name: str) -> Json:
        return self.tool(name, {"a": "integer", "b": "integer"}, f"{name.capitalize()} two numbers")

    def other_tools(self, used: Collection[str], high: int = 2) -> list[Json]:
        """Up to `high` tools that the conversation does not call; none is named as one that is `used`."""
        tools: list[Json] = []
        taken = set(used)
        for _ in range(self.rng.randint(0, high)):
            roll = self.rng.random()
            if roll < 0.25 and "get_weather" not in taken:
                tools.append(self.weather_tool()[0])
                taken.add("get_weather")
            elif roll < 0.5:
                name = self.pick(["add", "multiply"])
                if name not in taken:
                    tools.append(self.arithmetic_tool(name))
                    taken.add(name)
            else:
                name = self.pick(TOOL_NAMES)
                if name not in taken:
                    tools.append(self.tool(name, {self.pick(ARGUMENT_NAMES): "string"}, self.phrase(2, 4)))
                    taken.add(name)
        return tools

    def shuffled(self, tools: list[Json]) -> list[Json]:
        self.rng.shuffle(tools)
        return tools
