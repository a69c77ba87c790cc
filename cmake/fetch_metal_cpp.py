"""Find the metal-cpp headers, check them and print the folder to include; CMake runs it when it configures.

    fetch_metal_cpp.py CACHE [--dir DIR]

In order: DIR, CACHE as an earlier run left it, an installed mlx, the mlx-metal wheel of the package index (a
wheel for macOS: only its headers are unpacked), Apple's own archive. All have to hold the same bytes,
because rewrite_metal_cpp.py knows one version; only a DIR that somebody names may hold another, with a
warning.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import io
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

VERSION = "macOS 26"
FRAMEWORKS = ("Foundation", "Metal", "MetalFX", "QuartzCore")
# Over the names and contents of all headers, see tree_sha256.
TREE_SHA256 = "840869a1da8222efef94e5ae7ba94ef4d17e785bcd069f7dfbcf1853e047e5af"
WHEEL = "mlx-metal==0.32.4 --hash=sha256:8019b2db622599267d66cc168b2f0dbf5af929790a6c3b3913e00eabc42a7947"
WHEEL_FOLDER = "mlx/include/metal_cpp/"
ARCHIVE = "https://developer.apple.com/metal/cpp/files/metal-cpp_26.zip"
ARCHIVE_SHA256 = "4df3c078b9aadcb516212e9cb03004cbc5ce9a3e9c068fa3144d021db585a3a4"
ARCHIVE_FOLDER = "metal-cpp/"


class MissingError(Exception):
    """A source that has no headers to offer; the next one is asked."""


def headers(folder: Path) -> list[Path]:
    return sorted(
        (path for name in FRAMEWORKS for path in (folder / name).glob("*.hpp")),
        key=lambda path: path.relative_to(folder).as_posix(),
    )


def tree_sha256(folder: Path) -> str:
    total = hashlib.sha256()
    for path in headers(folder):
        name = path.relative_to(folder).as_posix()
        total.update(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n".encode())
    return total.hexdigest()


def unpack(archive: zipfile.ZipFile, prefix: str, target: Path) -> None:
    """Only the headers and the licence, whatever else the archive holds."""
    for member in archive.namelist():
        inner = member.removeprefix(prefix)
        folder, _, name = inner.rpartition("/")
        wanted = folder in FRAMEWORKS and name.endswith(".hpp")
        if member.startswith(prefix) and (wanted or inner == "LICENSE.txt"):
            path = target / inner
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(member))


def from_cache(cache: Path) -> Path:
    if not headers(cache):
        raise MissingError("nothing there yet")
    return cache


def from_installed_mlx(_: Path) -> Path:
    spec = importlib.util.find_spec("mlx")
    for root in spec.submodule_search_locations or [] if spec else []:
        folder = Path(root) / "include" / "metal_cpp"
        if headers(folder):
            return folder
    raise MissingError("no mlx with these headers is installed for this Python")


def from_package_index(cache: Path) -> Path:
    platform = "--platform macosx_14_0_arm64 --python-version 3.11 --implementation cp"
    with tempfile.TemporaryDirectory() as scratch:
        requirements = Path(scratch, "requirements.txt")
        requirements.write_text(WHEEL + "\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        command += [
            *platform.split(),
            "--require-hashes",
            "--dest",
            scratch,
            "--requirement",
            str(requirements),
        ]
        run = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        wheels = list(Path(scratch).glob("*.whl"))
        if run.returncode or not wheels:
            lines = run.stdout.strip().splitlines() or [f"exit status {run.returncode}"]
            raise MissingError(f"pip: {lines[-1]}")
        with zipfile.ZipFile(wheels[0]) as archive:
            unpack(archive, WHEEL_FOLDER, cache)
    return cache


def from_apple(cache: Path) -> Path:
    try:
        with urllib.request.urlopen(ARCHIVE, timeout=60) as answer:
            data = answer.read()
    except OSError as error:
        raise MissingError(str(error)) from error
    found = hashlib.sha256(data).hexdigest()
    if found != ARCHIVE_SHA256:
        raise MissingError(f"the archive's SHA-256 is {found}, expected {ARCHIVE_SHA256}")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        unpack(archive, ARCHIVE_FOLDER, cache)
    return cache


SOURCES: dict[str, Callable[[Path], Path]] = {
    "an earlier configure": from_cache,
    "an installed mlx": from_installed_mlx,
    "the mlx-metal wheel": from_package_index,
    "Apple's archive": from_apple,
}


def named(folder: Path) -> Path:
    if not headers(folder):
        raise SystemExit(f"QWISP_METAL_CPP_DIR={folder} has no metal-cpp headers (no Metal/*.hpp below it)")
    found = tree_sha256(folder)
    if found != TREE_SHA256:
        print(
            f"metal-cpp: the headers in {folder} are not those of {VERSION}\n"
            f"  SHA-256 found    {found}\n  SHA-256 expected {TREE_SHA256}\n  going on, untested",
            file=sys.stderr,
        )
    return folder


def search(cache: Path) -> Path:
    tried = []
    for name, source in SOURCES.items():
        try:
            folder = source(cache)
            found = tree_sha256(folder)
            if found == TREE_SHA256:
                print(f"metal-cpp: from {name}", file=sys.stderr)
                return folder
            tried.append(f"{name}: another version (SHA-256 {found})")
        except MissingError as why:
            tried.append(f"{name}: {why}")
    raise SystemExit(
        f"metal-cpp headers ({VERSION}) not found. Tried:\n  "
        + "\n  ".join(tried)
        + "\nWithout a network, unpack them and set QWISP_METAL_CPP_DIR to the folder with Metal/Metal.hpp."
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cache", type=Path)
    parser.add_argument("--dir", type=Path)
    args = parser.parse_args()
    print((named(args.dir) if args.dir else search(args.cache)).resolve().as_posix())


if __name__ == "__main__":
    main()
