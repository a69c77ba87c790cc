"""A report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def as_markdown(report: dict[str, Any]) -> str:
    """Decisions first, then times, comparisons, dispatches, the machine."""
    return "\n".join(_lines(report)) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """One Markdown table and an empty line."""
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"
    yield ""


def times(value: dict[str, float]) -> str:
    """Median and deciles, in us."""
    return f"{value['median']:.3g} ({value['p10']:.3g} to {value['p90']:.3g})"


def ratio(value: dict[str, Any] | None) -> str:
    """A speed-up with its interval."""
    return f"{value['speed_up']:.3f} ({value['low']:.3f} to {value['high']:.3f})" if value else "none"


def _lines(report: dict[str, Any]) -> Iterator[str]:
    options, environment = report["options"], report["environment"]
    baseline = options["arms"][0]
    yield f"# {report['kind']}: {environment['device']['name']}"
    yield ""
    yield (
        f"{report['created']}. {options['hidden']} columns, {options['experts']} experts, top"
        f" {options['top_k']}; {options['layers']} layers a command buffer, {options['encoder']} encoder,"
        f" {options['blocks']} sets of gates."
    )
    yield ""
    yield "## Decisions"
    yield ""
    yield f"GO: the 95% interval of time({baseline}) / time(arm) on the device lies above 1.02."
    yield ""
    yield from table(
        ("rows", "decision", "runs"),
        (
            (each["rows"], each["decision"], each["winner"] or "nothing can be said")
            for each in report["results"]
        ),
    )
    for result in report["results"]:
        for reason in result["void"]:
            yield f"* rows {result['rows']}, VOID: {reason}"
    if any(result["void"] for result in report["results"]):
        yield ""
    yield "## Times"
    yield ""
    yield "Microseconds a layer: median (p10 to p90)."
    yield ""
    yield from table(
        ("rows", "arm", "dispatches a layer", "device", "host"),
        (
            (
                result["rows"],
                name,
                f"{arm['dispatches'] / options['layers']:g}",
                times(arm["gpu_us_per_layer"]),
                times(arm["wall_us_per_layer"]),
            )
            for result in report["results"]
            for name, arm in result["arms"].items()
        ),
    )
    yield f"## Against {baseline}"
    yield ""
    yield "Speed-up, with its 95% interval; above 1 the arm is faster."
    yield ""
    yield from table(
        (
            "rows",
            "arm",
            "decision",
            "device",
            "median",
            "p10 to p90",
            "wins",
            "lag-1",
            "worth",
            f"{baseline} first",
            "arm first",
            "host",
        ),
        _comparisons(report),
    )
    yield "## Dispatches"
    yield ""
    yield "Microseconds that one more dispatch takes, of one simdgroup that does next to nothing:"
    yield ""
    yield from table(
        ("dispatch", "device", "host"),
        (
            (kind, times(cost), f"{cost['wall_median']:.3g}")
            for kind, cost in report["probe"]["cost_us"].items()
        ),
    )
    yield "What the dispatches saved would be worth, and what was saved, in microseconds a layer:"
    yield ""
    yield from table(
        ("rows", "arm", "dispatches saved", "predicted", "observed"),
        (
            (
                result["rows"],
                name,
                f"{each['dispatches']['saved_per_layer']:g}",
                f"{each['dispatches']['predicted_us']:.3g}",
                f"{each['dispatches']['observed_us']:.3g}",
            )
            for result in report["results"]
            for name, each in result["comparisons"].items()
        ),
    )
    yield "## Machine"
    yield ""
    told = environment | environment["machine"]
    names = ("processor", "cores", "platform", "python", "compiler", "contract", "shader_sha256", "package")
    yield from table(("what", "value"), ((name, told[name]) for name in (*names, "load_average", "power")))


def _comparisons(report: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    for result in report["results"]:
        for name, each in result["comparisons"].items():
            gpu = each["gpu"]
            if gpu is None:
                yield (result["rows"], name, each["decision"], *["none"] * 9)
                continue
            sides = [f"{gpu[key]:.3f}" for key in ("first_then_second", "second_then_first") if gpu[key]]
            yield (
                result["rows"],
                name,
                each["decision"],
                ratio(gpu),
                f"{gpu['median']:.3f}",
                f"{gpu['p10']:.3f} to {gpu['p90']:.3f}",
                f"{gpu['wins']} of {gpu['pairs']}",
                f"{gpu['correlation']:.2f}",
                f"{gpu['effective']:.0f}",
                *sides,
                *["none"] * (2 - len(sides)),
                ratio(each["wall"]),
            )
