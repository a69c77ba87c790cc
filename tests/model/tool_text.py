"""Conversations with tool calls, from a seed: the structured regime of the corpus."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Rng = Callable[[], float]
T = TypeVar("T")

CITIES = [
    "Lisbon",
    "Oslo",
    "Cairo",
    "Lima",
    "Kyoto",
    "Quito",
    "Accra",
    "Perth",
    "Turin",
    "Riga",
    "Dakar",
    "Hanoi",
    "Leeds",
    "Porto",
    "Sofia",
    "Tunis",
]
NAMES = [
    "Ada",
    "Alan",
    "Grace",
    "Edsger",
    "Barbara",
    "Donald",
    "Katherine",
    "John",
    "Margaret",
    "Dennis",
    "Radia",
    "Ken",
    "Frances",
    "Tony",
]
TOPICS = [
    "routing",
    "schedules",
    "budget",
    "release",
    "tests",
    "invoices",
    "shipping",
    "contracts",
    "backups",
    "reviews",
    "travel",
]
FILES = [
    "main.py",
    "notes.txt",
    "config.json",
    "report.md",
    "data.csv",
    "setup.cfg",
    "index.html",
    "Makefile",
    "gate.metal",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
SKIES = ["clear", "cloudy", "rainy", "foggy", "windy", "snowy"]


def seeded(seed: int) -> Rng:
    """Only random() is promised to give the same numbers in every version of Python."""
    return random.Random(seed).random


def pick(rng: Rng, options: Sequence[T]) -> T:
    return options[int(rng() * len(options))]


def weather(rng: Rng) -> tuple[str, str, dict[str, Any], Any, str]:
    city, days = pick(rng, CITIES), 1 + int(rng() * 3)
    start = int(rng() * 7)
    told = [
        {
            "day": DAYS[(start + i) % 7],
            "sky": pick(rng, SKIES),
            "high": 8 + int(rng() * 25),
            "low": int(rng() * 8),
        }
        for i in range(days)
    ]
    last = told[-1]
    return (
        f"What will the weather be like in {city} over the next {days} day{'s' * (days > 1)}?",
        "get_weather",
        {"city": city, "days": days, "unit": "celsius"},
        {"city": city, "forecast": told},
        f"In {city}, {last['day']} will be {last['sky']} with a high of {last['high']} degrees.",
    )


def add(rng: Rng) -> tuple[str, str, dict[str, Any], Any, str]:
    a, b = int(rng() * 1000), int(rng() * 1000)
    return (
        f"How much is {a} plus {b}?",
        "calculate",
        {"expression": f"{a} + {b}"},
        {"result": a + b},
        f"{a} plus {b} is {a + b}.",
    )


def search(rng: Rng) -> tuple[str, str, dict[str, Any], Any, str]:
    topic, limit = pick(rng, TOPICS), 2 + int(rng() * 3)
    hits = [
        {"id": 100 + int(rng() * 900), "title": f"{pick(rng, NAMES)}'s notes on {topic}"}
        for _ in range(limit)
    ]
    return (
        f"Find me {limit} documents about {topic}.",
        "search_documents",
        {"query": topic, "limit": limit},
        {"hits": hits, "total": limit},
        f'I found {limit} documents about {topic}. First: "{hits[0]["title"]}" (number {hits[0]["id"]}).',
    )


def read(rng: Rng) -> tuple[str, str, dict[str, Any], Any, str]:
    file, lines = pick(rng, FILES), 10 + int(rng() * 490)
    return (
        f"How long is the file {file}?",
        "read_file",
        {"path": f"src/{file}", "encoding": "utf-8"},
        {"path": f"src/{file}", "lines": lines, "bytes": lines * 34, "truncated": lines > 400},
        f"The file {file} has {lines} lines.",
    )


def message(rng: Rng) -> tuple[str, str, dict[str, Any], Any, str]:
    name, topic, day = pick(rng, NAMES), pick(rng, TOPICS), pick(rng, DAYS)
    return (
        f"Tell {name} that the meeting about {topic} is on {day}.",
        "send_message",
        {
            "to": f"{name.lower()}@example.org",
            "subject": topic,
            "body": f"The meeting about {topic} is on {day}.",
        },
        {"status": "sent", "id": f"msg-{int(rng() * 10**6):06}"},
        f"I have told {name} that the meeting about {topic} is on {day}.",
    )


def event(rng: Rng) -> tuple[str, str, dict[str, Any], Any, str]:
    name, day, hour = pick(rng, NAMES), pick(rng, DAYS), 8 + int(rng() * 10)
    return (
        f"Book an hour with {name} on {day} at {hour}:00.",
        "create_event",
        {"title": f"Meeting with {name}", "day": day, "start": f"{hour:02}:00", "end": f"{hour + 1:02}:00"},
        {"status": "ok", "conflicts": [], "attendees": [name]},
        f"Your meeting with {name} is booked for {day} at {hour}:00.",
    )


CALLS = (weather, add, search, read, message, event)


def tool_documents(seed: int, count: int) -> list[bytes]:
    """Conversations of 2 to 6 turns: question, call, answer of the tool, answer."""
    rng = seeded(seed)
    documents = []
    for _ in range(count):
        turns = []
        for _ in range(2 + int(rng() * 5)):
            asked, name, arguments, told, said = pick(rng, CALLS)(rng)
            call = json.dumps({"name": name, "arguments": arguments})
            turns.append(
                f"<user>\n{asked}\n</user>\n<tool_call>\n{call}\n</tool_call>\n"
                f"<tool_response>\n{json.dumps(told)}\n</tool_response>\n<assistant>\n{said}\n</assistant>\n"
            )
        documents.append("".join(turns).encode())
    return documents
