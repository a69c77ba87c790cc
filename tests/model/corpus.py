"""Builds the text that the small model of `qwisp-native lossless` is trained on (Debian 12, no root needed).

    python tests/model/corpus.py --out build/corpus.xz

| kind    | what                                                           | licence                        |
|---------|----------------------------------------------------------------|--------------------------------|
| code    | sources of Python's standard library (libpython3.11-*)         | PSF-2.0                        |
| docs    | Python's documentation as reStructuredText (python3.11-doc)    | PSF-2.0, examples 0BSD         |
| prose   | King James Bible (bible-kjv-text), Jargon File (jargon-text)   | public domain                  |
|         | licence texts of /usr/share/common-licenses                    | verbatim copies are permitted  |
| tools   | tool calls and answers, from a seed (`tool_text.py`)           | this project's                 |
| repeats | passages of the above, each several times over                 | as above                       |

Documents end with a NUL, kinds with one more; neither occurs in a document. The packages' versions and the
SHA-256 of the text are printed: a point release of Debian changes the hash, and training.json keeps the one
that was used.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import lzma
import re
import subprocess
import tempfile
from pathlib import Path

from tool_text import pick, seeded, tool_documents

SEED = 20261203
PACKAGES = (
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "python3.11-doc",
    "bible-kjv",
    "bible-kjv-text",
    "jargon-text",
)
TABLES = ("pydoc_data/", "encodings/", "lib2to3/tests/", "html/entities.py", "stringprep")  # data, not code


def fetch(folder: Path) -> tuple[Path, list[str]]:
    """Download and unpack the packages; return the tree and `name_version` of each."""
    debs, tree = folder / "debs", folder / "tree"
    debs.mkdir()
    subprocess.run(["apt-get", "download", "-qq", *PACKAGES], cwd=debs, check=True)
    files = sorted(debs.glob("*.deb"))
    for file in files:
        subprocess.run(["dpkg-deb", "-x", file, tree], check=True)
    return tree, [file.name.rpartition("_")[0].replace("%3a", ":") for file in files]


def clean(raw: bytes) -> bytes:
    """UTF-8 without NULs, carriage returns or spaces at line ends."""
    text = raw.decode("utf-8", "replace").replace("\0", "").replace("\r", "")
    return re.sub(r"[ \t]+\n", "\n", text).strip("\n").encode() + b"\n"


def code(tree: Path) -> list[bytes]:
    root = tree / "usr/lib/python3.11"
    files = sorted(path for path in root.rglob("*.py") if not any(part in str(path) for part in TABLES))
    return [clean(path.read_bytes()) for path in files]


def docs(tree: Path) -> list[bytes]:
    root = tree / "usr/share/doc/python3.11/html/_sources"
    return [
        clean(path.read_bytes())
        for path in sorted(root.rglob("*.rst.txt"))
        if path.name != "changelog.rst.txt"
    ]


def prose(tree: Path) -> list[bytes]:
    told = subprocess.run(
        [tree / "usr/bin/bible", "-f", "-p", tree / "usr/lib"],
        input=b"gen1:1-rev22:21\nq\n",
        capture_output=True,
        check=True,
    ).stdout
    chapters: dict[str, list[str]] = {}
    for line in told.decode("ascii").splitlines():
        place, _, verse = line.partition(" ")
        if re.fullmatch(r"\w+:\d+", place):
            chapters.setdefault(place.partition(":")[0], []).append(verse.strip())
    jargon = gzip.decompress((tree / "usr/share/doc/jargon-text/jargon.txt.gz").read_bytes())
    parts = re.split(rb"\n(?=\S)", clean(jargon))
    entries = [b"\n".join(parts[at : at + 12]) for at in range(0, len(parts), 12)]
    licences = [
        path.read_bytes()
        for path in sorted(Path("/usr/share/common-licenses").iterdir())
        if not path.is_symlink()
    ]
    bible = ["\n".join(verses).encode() for verses in chapters.values()]
    return [clean(text) for text in [*bible, *entries, *licences]]


def repeats(documents: list[bytes], count: int, seed: int) -> list[bytes]:
    """Passages of 40 to 400 bytes, each 3 to 12 times with a line between: what induction is learnt from."""
    rng = seeded(seed)
    found = []
    for _ in range(count):
        text = pick(rng, documents)
        size = 40 + int(rng() * 360)
        start = int(rng() * max(1, len(text) - size))
        passage = text[start : start + size].decode("utf-8", "ignore").strip() + "\n"
        found.append((passage * (3 + int(rng() * 10))).encode())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="the .xz file to write")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        tree, versions = fetch(Path(folder))
        kinds = {"code": code(tree), "docs": docs(tree), "prose": prose(tree)}
    kinds["tools"] = tool_documents(SEED, 1500)
    kinds["repeats"] = repeats([text for texts in kinds.values() for text in texts], 700, SEED)
    text = b"\0".join(b"".join(each + b"\0" for each in texts) for texts in kinds.values())
    packed = lzma.compress(text, preset=9 | lzma.PRESET_EXTREME)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(out.name + ".part")
    part.write_bytes(packed)
    part.replace(out)
    for kind, texts in kinds.items():
        print(f"{kind:8} {len(texts):5} documents {sum(map(len, texts)):10,} bytes")
    print(*versions, sep="\n")
    print(f"{len(text):,} bytes, {len(packed):,} packed, SHA-256 {hashlib.sha256(text).hexdigest()}")


if __name__ == "__main__":
    main()
