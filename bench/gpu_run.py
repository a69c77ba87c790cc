"""Builds the package, checks it and measures it on an NVIDIA GPU, in under 9 minutes and without a network.

    bench/gpu_run.sh OUT [--only build,gates] [--seconds 530] [--rows 10000000]

Needs CMake, a C++ compiler, numpy, safetensors and tqdm; PyTorch for the comparison. pybind11 3 comes from
the Python that runs this, or from the folder in pybind11_ROOT; the metal-cpp headers from
QWISP_METAL_CPP_DIR, or from where docs/environment.md says. Each stage has a log and its JSON in OUT, a limit
of time, and an entry in OUT/summary.json, which is written after each: "ok", "failed" or "skipped", why,
seconds. A stage that fails does not stop the others; without a build or a device there is nothing to run.
Exit code 1 if one failed.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from atomic import write_json

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "gpu"
SITE = BUILD / "site"
PYTHON = [sys.executable, "-B"]


@dataclass
class Entry:
    """How a stage ended: state is ok, failed or skipped."""

    state: str
    why: str = ""
    seconds: float = 0.0
    command: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """What the stages may know."""

    out: Path
    end: float
    rows: int

    def left(self) -> float:
        """Seconds until everything must be over."""
        return self.end - time.monotonic()


@dataclass(frozen=True)
class Stage:
    """A command with a limit of seconds; `why_not` gives the reason to skip it, or "".

    `json`: the name of a file in OUT for what the command prints. Its log then has only the errors.
    `reserve`: seconds that the stages after it are left.
    """

    name: str
    limit: float
    command: Callable[[Run, float], list[str]]
    why_not: Callable[[], str] = lambda: ""
    json: str = ""
    needs_device: bool = True
    reserve: float = 0.0


def script(name: str, *arguments: str) -> list[str]:
    """A Python program of this folder."""
    return [*PYTHON, str(ROOT / "bench" / name), *arguments]


def package(*arguments: str) -> list[str]:
    """A command of the package: qwisp-native."""
    return [*PYTHON, "-m", "qwisp_native", *arguments]


def sanitizer(tool: str) -> Callable[[Run, float], list[str]]:
    """compute-sanitizer over all variants, 1 to 8 rows, each way to launch."""

    def command(run: Run, limit: float) -> list[str]:
        soak = script("gpu_soak.py", "--rows", "192", "--batch", "8", "--out", str(run.out / f"{tool}.json"))
        return ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *soak]

    return command


def no_sanitizer() -> str:
    """Where it is absent."""
    return "" if shutil.which("compute-sanitizer") else "compute-sanitizer is not on PATH"


def no_pytest() -> str:
    """Where it is absent."""
    return "" if importlib.util.find_spec("pytest") else "pytest is not installed"


def tests(run: Run, limit: float) -> list[str]:
    """Those that need a GPU, but for those of the gates and of the comparison, which have stages."""
    others = [f"--ignore={ROOT / 'tests' / name}" for name in ("test_gates.py", "test_bench_cuda_peers.py")]
    command = [*PYTHON, "-m", "pytest", "-q", "-m", "cuda", "--device", "cuda", "-p", "no:cacheprovider"]
    return [*command, *others, str(ROOT / "tests")]


def soak(run: Run, limit: float) -> list[str]:
    """As many rows as asked for."""
    seconds = str(round(limit - 5))
    out = str(run.out / "soak.json")
    return script("gpu_soak.py", "--rows", str(run.rows), "--seconds", seconds, "--out", out)


def bench(run: Run, limit: float) -> list[str]:
    """The package's own benchmark."""
    budget = str(max(5, round(limit - 25)))
    out = str(run.out / "bench")
    return package("bench", "--device", "cuda", "--rows", "1", "8", "--budget", budget, "--out", out)


def peers(run: Run, limit: float) -> list[str]:
    """The numbers of rows that matter most come first: what there is no time for is left out."""
    budget = str(max(10, round(limit - 45)))
    return script(
        "cuda_peers.py", "--rows", "1,8,4,2,32,16", "--budget", budget, "--out", str(run.out / "peers")
    )


STAGES = (
    Stage("build", 240, lambda run, limit: script("gpu_run.py", "--build"), needs_device=False),
    Stage("device", 30, lambda run, limit: package("info", "--json"), json="info.json", needs_device=False),
    Stage("gates", 170, lambda run, limit: script("gpu_run.py", "--gates", str(run.out / "gates.json"))),
    Stage("tests", 60, tests, no_pytest),
    Stage("memcheck", 60, sanitizer("memcheck"), no_sanitizer),
    Stage("racecheck", 60, sanitizer("racecheck"), no_sanitizer),
    Stage(
        "lossless",
        75,
        lambda run, limit: package("lossless", "--device", "cuda", "--json"),
        json="lossless.json",
        reserve=220,
    ),
    Stage("soak", 90, soak, reserve=130),
    Stage("bench", 45, bench, reserve=90),
    Stage("peers", 280, peers),
)


def build() -> int:
    """Configures, compiles the module, and puts the package together in SITE."""
    configure = ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-DCMAKE_BUILD_TYPE=Release"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", "-DQWISP_BUILD_PYTHON=ON"]
    configure += ["-G", "Ninja"] if shutil.which("ninja") and not (BUILD / "CMakeCache.txt").exists() else []
    if "pybind11_ROOT" not in os.environ:
        asked = subprocess.run(
            [*PYTHON, "-m", "pybind11", "--cmakedir"], capture_output=True, text=True, check=False
        )
        if asked.returncode:
            print("no pybind11: install it for this Python, or name its folder in pybind11_ROOT")
            return 1
        configure.append(f"-Dpybind11_DIR={asked.stdout.strip()}")
    for command in (configure, ["cmake", "--build", str(BUILD), "--parallel", str(os.cpu_count() or 2)]):
        if status := subprocess.run(command, check=False).returncode:
            return status
    (module,) = (BUILD / "cpp" / "python").glob("_core*.so")
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "python" / "qwisp_native", SITE / "qwisp_native")
    shutil.copy(module, SITE / "qwisp_native")
    return 0


def gates(path: Path) -> int:
    """Every gate on the cuda device, each in a process of its own: most of the time goes into compiling."""
    listed = subprocess.run([*package("gates", "--list")], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    skipped = {"targets": "about the CPU's kernels", "adversary": "about the executor"}

    def one(name: str) -> dict[str, Any]:
        command = package("gates", "--device", "cuda", "--only", name, "--json")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        with suppress(ValueError):
            report = dict(json.loads(done.stdout))
            if done.returncode == (1 if report["failures"] else 0):
                return report
        told = f"exit {done.returncode}: {done.stderr[-2000:]}"
        failure = {"gate": name, "check": "process", "detail": told}
        return {"gates": {name: {"checks": 1}}, "failures": [failure]}

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        reports = list(pool.map(one, (name for name in names if name not in skipped)))
    all_gates = {name: gate for report in reports for name, gate in report["gates"].items()}
    failures = list({json.dumps(each): each for report in reports for each in report["failures"]}.values())
    checks = sum(gate["checks"] for gate in all_gates.values())
    report = {"gates": all_gates, "failures": failures, "skipped": skipped, "checks": checks}
    write_json(path, report)
    print(f"{checks} checks of {len(all_gates)} gates, {len(failures)} failed")
    for each in failures:
        print(f"FAIL {each}")
    return 1 if failures else 0


def environment() -> dict[str, str]:
    """Of every stage: the package that was built here, if there is one, and a cache of its own."""
    paths = [str(SITE)] if SITE.exists() else []
    paths += [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "QWISP_DEVICE": "cuda",
        "QWISP_CACHE_DIR": str(BUILD / "cache"),
        "PYTHONUNBUFFERED": "1",
    }


def execute(stage: Stage, run: Run) -> Entry:
    """Runs a stage to its end or to its limit, whichever comes first."""
    if why := stage.why_not():
        return Entry("skipped", why)
    limit = min(stage.limit, run.left() - stage.reserve)
    if limit < 5:
        return Entry("failed", "no time left")
    command = stage.command(run, limit)
    start = time.monotonic()
    log = run.out / f"{stage.name}.log"
    with log.open("wb") as errors, (run.out / (stage.json or os.devnull)).open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdout=output if stage.json else errors,
            stderr=errors,
            start_new_session=True,
        )
        try:
            status = process.wait(limit)
            why = "" if status == 0 else f"exit status {status}; see {log.name}"
        except subprocess.TimeoutExpired:
            why = f"still running after {limit:.0f} s"
        finally:  # whatever it started goes with it
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Entry("failed" if why else "ok", why, round(time.monotonic() - start, 1), command)


def why_no_device(info: Path) -> str:
    """By what the stage "device" wrote."""
    try:
        found = json.loads(info.read_text(encoding="utf-8"))["devices"]
        (cuda,) = [each for each in found if each["kind"] == "cuda"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"unknown: {error}"
    return "" if cuda["available"] else str(cuda["why"])


def run_stages(run: Run, chosen: Sequence[Stage], tell: Callable[[str], object] = print) -> dict[str, Any]:
    """All of them, and the summary, which is also written after each."""
    entries: dict[str, Entry] = {}
    summary: dict[str, Any] = {}
    no_device = ""
    for stage in chosen:
        if no_device and stage.needs_device:
            entries[stage.name] = Entry("skipped", no_device)
        else:
            entries[stage.name] = execute(stage, run)
        entry = entries[stage.name]
        if stage.name == "build" and entry.state == "failed":
            no_device = "the build failed"
        if stage.name == "device":
            why = why_no_device(run.out / "info.json")
            no_device = no_device or (f"no cuda device: {why}" if why else "")
            if no_device:
                entries[stage.name] = entry = Entry("failed", no_device, entry.seconds, entry.command)
        tell(f"{stage.name:10} {entry.state:8} {entry.seconds:6.1f} s  {entry.why}")
        summary = {
            "kind": "gpu_run",
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "ok": all(each.state != "failed" for each in entries.values()),
            "stages": {name: asdict(each) for name, each in entries.items()},
        }
        write_json(run.out / "summary.json", summary)
    return summary


def stages(text: str) -> list[Stage]:
    """Of "build,gates", in the order in which they run."""
    names = text.split(",")
    if unknown := set(names) - {stage.name for stage in STAGES}:
        raise argparse.ArgumentTypeError(
            f"{', '.join(sorted(unknown))}, but it must be of {', '.join(stage.name for stage in STAGES)}"
        )
    return [stage for stage in STAGES if stage.name in names]


def main(arguments: Sequence[str] | None = None) -> int:
    """0, or 1 if a stage failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?", help="a folder for logs and JSON")
    parser.add_argument("--only", type=stages, default=list(STAGES), metavar="STAGE,STAGE")
    parser.add_argument("--seconds", type=float, default=530.0, help="for everything; default 530")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the soak; default 10000000")
    parser.add_argument("--gates", type=Path, metavar="JSON", help="only the gates, as that stage does")
    parser.add_argument("--build", action="store_true", help="only build, as the first stage does")
    options = parser.parse_args(arguments)
    if options.build:
        return build()
    if options.gates:
        return gates(options.gates)
    if options.out is None:
        parser.error("out: a folder is missing")
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(options.out.resolve(), time.monotonic() + options.seconds, options.rows)
    return 0 if run_stages(run, options.only)["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
