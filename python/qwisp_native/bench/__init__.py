"""Timing of variants against each other, and the decision that follows (docs/benchmarks.md).

report = bench.run(qn.Device(), bench.Options(rows=(1, 8), budget=20))
print(bench.as_markdown(report))
"""

from .dispatches import probe
from .markdown import as_markdown
from .report import read, run, verdicts_of, write
from .rules import void_reasons
from .runs import Options, Run, Sample, measure
from .statistics import Comparison, compare_times, mean_interval
from .two_reports import compare, comparison_as_markdown

__all__ = [
    "Comparison",
    "Options",
    "Run",
    "Sample",
    "as_markdown",
    "compare",
    "compare_times",
    "comparison_as_markdown",
    "mean_interval",
    "measure",
    "probe",
    "read",
    "run",
    "verdicts_of",
    "void_reasons",
    "write",
]
