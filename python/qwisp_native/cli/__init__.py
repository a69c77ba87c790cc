"""The command `qwisp-native`. Exit codes: as in the epilog below."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from . import adversary, bench, demo, info, lossless, route, tune
from .output import failure


def build_parser() -> argparse.ArgumentParser:
    """Make the parser of every command."""
    parser = argparse.ArgumentParser(
        prog="qwisp-native",
        description="Mixture-of-Experts routing, bit for bit the same on every device.",
        epilog="Exit codes: 0 all went well, 1 something failed, 2 wrong usage, 3 a benchmark is VOID.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in (demo, route, bench, tune, adversary, lossless, info):
        name = command.__name__.rpartition(".")[2]
        sub = commands.add_parser(name, help=command.SUMMARY, description=command.DESCRIPTION)
        command.add_arguments(sub)
        sub.set_defaults(run=command.run, usage_error=sub.error)
    commands.add_parser("gates", help="check this device against the routing contract", add_help=False)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; wrong usage leaves by SystemExit, as argparse does."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["gates"]:  # it has a parser of its own
            from ..gates import main as gates

            return gates(words[1:])
        options = build_parser().parse_args(words)
        code = int(options.run(options))
        if sys.stdout:  # None where the caller closed it
            sys.stdout.flush()
    except BrokenPipeError:  # as in `qwisp-native route ... | head`
        if sys.stdout:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except (ValueError, TypeError, KeyError, OSError, RuntimeError, MemoryError) as error:
        if sys.stderr:  # print(file=None) would write to stdout
            print(f"qwisp-native {words[0]}: {failure(error)}", file=sys.stderr)
        return 1
    return code
