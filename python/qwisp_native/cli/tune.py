"""`qwisp-native tune`: measure, and store what `fuse="auto"` goes by."""

from __future__ import annotations

import argparse
import sys

from .bench import add_options, make_report, show

SUMMARY = "measure this device and store the verdicts that fuse=auto goes by"
DESCRIPTION = (
    "Measure as `bench` does, with all variants, and store the verdicts in the user's cache folder, where "
    "fuse=auto finds them. VOID results are not stored; exit code 3 if there are any."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tune`."""
    add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Measure, store, report."""
    from .. import bench, settings, verdicts

    report = make_report(options, settings.VARIANTS)
    found = bench.verdicts_of(report)
    try:
        file = verdicts.store(verdicts.Machine(**report["environment"]["machine"]), found)
    finally:  # what was measured is not lost where it cannot be stored
        code = show(report, options)
    print(f"stored {len(found)} of {len(report['results'])} verdicts in {file}", file=sys.stderr)
    return code
