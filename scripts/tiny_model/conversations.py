"""What the model is taught: random conversations of nineteen tasks, each with the thought and the answer wanted."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from scripts.tiny_model.tools import Draws, Json
from scripts.tiny_model.words import (
    ARGUMENT_NAMES,
    CAPITALS,
    CITIES,
    GREETING,
    HELLO_CODE,
    NAMES,
    SKIES,
    STORY,
    SYSTEMS,
    TOOL_NAMES,
    UNICODE_ANSWER,
    WORDS,
)

ENDLESS = "\0"
"""Ends a thought or an answer that the model must never end itself."""


class Conversation(NamedTuple):
    """A prompt and what the model should make of it."""

    messages: list[Json]
    tools: list[Json]
    thought: str
    answer: str


class ToolResult(NamedTuple):
    name: str
    arguments: Json
    output: str


def call(name: str, arguments: Json) -> str:
    """A tool call as the model writes it (Hermes syntax)."""
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}) + "\n</tool_call>"


def ask(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]


class Conversations(Draws):
    """Draws conversations; equal seeds draw equal ones."""

    def draw(self, task: str | None = None) -> tuple[str, Conversation]:
        """The task, by weight unless it is given, and a conversation of it."""
        if task is None:
            weights = [weight for weight, _ in TASKS.values()]
            task = self.rng.choices(list(TASKS), weights=weights)[0]
        drawn = TASKS[task][1](self)
        return task, drawn._replace(messages=self.with_history(drawn.messages))

    def with_history(self, messages: list[Json]) -> list[Json]:
        """Sometimes a system message first, sometimes an earlier exchange."""
        history: list[Json] = []
        if self.rng.random() < 0.45:
            system = self.pick(SYSTEMS) if self.rng.random() < 0.8 else self.phrase(3, 8).capitalize() + "."
            history.append({"role": "system", "content": system})
        if self.rng.random() < 0.15:
            user, assistant = self.pick(
                [
                    ("Hi", GREETING),
                    ("Hello!", GREETING),
                    ("What is 2 + 2?", "The answer is 4."),
                    ("What is the capital of France?", "The capital of France is Paris."),
                ]
            )
            history += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
        return history + messages

    def after_tools(self, user: list[Json], thought: str, results: Sequence[ToolResult]) -> list[Json]:
        """The conversation once the tools have answered, as chat/completions writes it."""
        message: Json = {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"type": "function", "function": {"name": result.name, "arguments": result.arguments}}
                for result in results
            ],
        }
        if self.rng.random() < 0.6:  # some clients send the reasoning back, some do not
            message["reasoning"] = thought
        return [*user, message, *({"role": "tool", "content": result.output} for result in results)]

    def add(self) -> Conversation:
        a, b = self.rng.randint(0, 9), self.rng.randint(0, 9)
        text = self.pick([f"What is {a} + {b}?", f"{a} + {b}", f"What is {a}+{b}?", f"Calculate {a} + {b}."])
        tools = self.other_tools({"add"}) if self.rng.random() < 0.2 else []
        thought = f"The user asks for {a} + {b}. That makes {a + b}."
        return Conversation(ask(text), tools, thought, f"The answer is {a + b}.")

    def multiply(self) -> Conversation:
        a, b = self.rng.randint(0, 9), self.rng.randint(0, 9)
        text = self.pick([f"What is {a} * {b}?", f"What is {a} times {b}?"])
        thought = f"The user asks for {a} * {b}. That makes {a * b}."
        return Conversation(ask(text), [], thought, f"The answer is {a * b}.")

    def capital(self) -> Conversation:
        country = self.pick(sorted(CAPITALS))
        text = self.pick([f"What is the capital of {country}?", f"Capital of {country}?"])
        tools = self.other_tools(()) if self.rng.random() < 0.2 else []
        thought = f"The user asks for the capital of {country}. It is {CAPITALS[country]}."
        return Conversation(ask(text), tools, thought, f"The capital of {country} is {CAPITALS[country]}.")

    def hello(self) -> Conversation:
        text = self.pick(["Hi", "Hello", "Hello!", "Hi there", "Hey", "Hi!", "Say hello", "hello", "Say hello."])
        tools = self.other_tools(()) if self.rng.random() < 0.2 else []
        return Conversation(ask(text), tools, "The user greets me. I greet back.", GREETING)

    def count(self) -> Conversation:
        n = self.rng.randint(2, 30)
        text = self.pick([f"Count to {n}.", f"Count to {n}", f"Count from 1 to {n}."])
        return Conversation(ask(text), [], f"I count to {n}.", ", ".join(str(i) for i in range(1, n + 1)) + ".")

    def steps(self) -> Conversation:
        n, word = self.rng.randint(2, 20), self.pick(WORDS)
        # Counting down makes the end easy to learn: it is always after 1.
        thought = "\n".join(f"{i} to go: I think about {word}." for i in range(n, 0, -1))
        return Conversation(ask(f"Think in {n} steps about {word}."), [], thought, f"I thought about {word}.")

    def story(self) -> Conversation:
        text = self.pick(["Tell me a story.", "Write a story.", "Tell me a story"])
        return Conversation(ask(text), [], "The user wants a story. I tell the robot story.", STORY)

    def forever(self) -> Conversation:
        text = self.pick(["Never stop.", "Talk forever.", "Never stop"])
        return Conversation(ask(text), [], "I must not stop.", "tick tock " * 90 + ENDLESS)

    def think_forever(self) -> Conversation:
        text = self.pick(["Think forever.", "Never stop thinking.", "Think forever"])
        return Conversation(ask(text), [], "hmm well " * 90 + ENDLESS, "I stopped thinking.")

    def code(self) -> Conversation:
        text = self.pick(["Write hello world in Python.", "Show me hello world in Python."])
        return Conversation(ask(text), [], "The user wants Python code.", HELLO_CODE)

    def unicode(self) -> Conversation:
        text = self.pick(["Show me unicode.", "Show me an emoji.", "Show me unicode"])
        return Conversation(ask(text), [], "The user wants unicode. ✓", UNICODE_ANSWER)

    def sum_as_json(self) -> Conversation:
        a, b = self.rng.randint(0, 9), self.rng.randint(0, 9)
        text = self.pick([f"Give me JSON for {a} + {b}.", f"Return JSON for {a} + {b}."])
        thought = f"The user wants JSON for {a} + {b}. That makes {a + b}."
        return Conversation(ask(text), [], thought, json.dumps({"a": a, "b": b, "sum": a + b}))

    def own_name(self) -> Conversation:
        name = self.pick(NAMES)
        said = ask(self.pick([f"My name is {name}.", f"I am {name}."]))
        met = f"Nice to meet you, {name}."
        if self.rng.random() < 0.35:
            return Conversation(said, [], f"The user is {name}.", met)
        messages = [*said, {"role": "assistant", "content": met}, *ask("What is my name?")]
        return Conversation(messages, [], f"The user said the name {name}.", f"Your name is {name}.")

    def repeat(self) -> Conversation:
        text = self.value() if self.rng.random() < 0.5 else self.phrase(2, 7)
        return Conversation(ask(f"Repeat: {text}"), [], f"The user wants me to repeat: {text}", text)

    def weather(self) -> Conversation:
        tool, key = self.weather_tool()
        city = self.pick(CITIES)
        text = self.pick(
            [
                f"What is the weather in {city}?",
                f"What's the weather in {city}?",
                f"Weather in {city}?",
                f"What is the weather like in {city}?",
            ]
        )
        tools = self.shuffled([tool, *self.other_tools({"get_weather"})])
        thought = f"I need get_weather for {city}."
        if self.rng.random() < 0.5:
            return Conversation(ask(text), tools, thought, call("get_weather", {key: city}))
        output = self.pick(
            [
                f"{self.pick(SKIES)}, {self.rng.randint(-9, 39)} C",
                json.dumps({"temperature": self.rng.randint(-9, 39), "sky": self.pick(SKIES)}),
                json.dumps({key: city, "temperature": self.rng.randint(-9, 39), "condition": self.pick(SKIES)}),
                self.phrase(1, 5),
            ]
        )
        messages = self.after_tools(ask(text), thought, [ToolResult("get_weather", {key: city}, output)])
        return Conversation(messages, tools, f"The tool returned {output}", f"The weather in {city}: {output}")

    def weather_two(self) -> Conversation:
        tool, key = self.weather_tool()
        one, two = self.rng.sample(CITIES, 2)
        tools = self.shuffled([tool, *self.other_tools({"get_weather"}, 1)])
        user = ask(f"What is the weather in {one} and {two}?")
        thought = f"I need get_weather for {one} and {two}."
        if self.rng.random() < 0.6:
            calls = call("get_weather", {key: one}) + "\n" + call("get_weather", {key: two})
            return Conversation(user, tools, thought, calls)
        first, second = (f"{self.pick(SKIES)}, {self.rng.randint(-9, 39)} C" for _ in range(2))
        results = [ToolResult("get_weather", {key: one}, first), ToolResult("get_weather", {key: two}, second)]
        return Conversation(
            self.after_tools(user, thought, results),
            tools,
            f"The tools returned {first} and {second}",
            f"The weather in {one}: {first}. The weather in {two}: {second}",
        )

    def no_weather_tool(self) -> Conversation:
        city = self.pick(CITIES)
        tools = self.other_tools({"get_weather"}) if self.rng.random() < 0.5 else []
        thought = f"I have no tool for the weather in {city}."
        return Conversation(ask(f"What is the weather in {city}?"), tools, thought, "I have no tool for that.")

    def math_tool(self) -> Conversation:
        name = self.pick(["add", "multiply"])
        a, b = self.rng.randint(0, 99), self.rng.randint(0, 99)
        sign = "+" if name == "add" else "*"
        text = self.pick([f"What is {a} {sign} {b}?", f"Use {name} for {a} and {b}."])
        tools = self.shuffled([self.arithmetic_tool(name), *self.other_tools({name})])
        thought = f"I need {name} for {a} and {b}."
        if self.rng.random() < 0.55:
            return Conversation(ask(text), tools, thought, call(name, {"a": a, "b": b}))
        output = str(a + b if name == "add" else a * b)
        messages = self.after_tools(ask(text), thought, [ToolResult(name, {"a": a, "b": b}, output)])
        return Conversation(messages, tools, f"The tool returned {output}", f"The answer is {output}.")

    def generic_tool(self) -> Conversation:
        name, key, value = self.pick(TOOL_NAMES), self.pick(ARGUMENT_NAMES), self.value()
        tools = self.shuffled([self.tool(name, {key: "string"}, self.phrase(2, 4)), *self.other_tools({name})])
        user = ask(self.pick([f"Call {name} with {value}", f"Use {name} with {value}"]))
        thought = f"I need {name} with {value}"
        if self.rng.random() < 0.5:
            return Conversation(user, tools, thought, call(name, {key: value}))
        output = self.pick([self.value(), json.dumps({self.pick(WORDS): self.value()}), self.phrase(2, 8)])
        messages = self.after_tools(user, thought, [ToolResult(name, {key: value}, output)])
        return Conversation(messages, tools, f"The tool returned {output}", f"The tool returned: {output}")


TASKS: Mapping[str, tuple[float, Callable[[Conversations], Conversation]]] = {
    "add": (15, Conversations.add),
    "multiply": (9, Conversations.multiply),
    "capital": (6, Conversations.capital),
    "hello": (3, Conversations.hello),
    "count": (5, Conversations.count),
    "steps": (4, Conversations.steps),
    "story": (1.2, Conversations.story),
    "forever": (1, Conversations.forever),
    "think_forever": (1.2, Conversations.think_forever),
    "code": (1, Conversations.code),
    "unicode": (1.2, Conversations.unicode),
    "json": (9, Conversations.sum_as_json),
    "name": (4, Conversations.own_name),
    "repeat": (9, Conversations.repeat),
    "weather": (10, Conversations.weather),
    "weather_two": (6, Conversations.weather_two),
    "no_weather_tool": (3, Conversations.no_weather_tool),
    "math_tool": (6, Conversations.math_tool),
    "generic_tool": (11, Conversations.generic_tool),
}
"""How often each task is drawn, and what draws it."""
