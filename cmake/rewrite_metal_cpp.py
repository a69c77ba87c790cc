"""Make metal-cpp headers that gcc accepts: eight mechanical rules over a copy.

    rewrite_metal_cpp.py HEADERS COPY

The number of hits of every rule is asserted, so that headers of another version fail here and not in some
compiler message. cpp/metal_runtime/include/Block.h has what the rules refer to. clang with blocks needs none
of this.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Rule:
    why: str
    pattern: str
    replacement: str
    hits: int


RULES = (
    Rule(
        "a block type: void (^)(A)",
        r"\bvoid\s*\(\^\)\s*\(([^()]*)\)",
        r"::mtlshim::Block<void(\1)>",
        17,
    ),
    Rule(
        "a block parameter: void (^name)(A)",
        r"\bvoid\s*\(\^(\w+)\)\s*\(([^()]*)\)",
        r"::mtlshim::Block<void(\2)> \1",
        14,
    ),
    Rule(
        "a block literal: ^(A) {...}",
        r"(?<=[(,=])(\s*)\^(?:void)?\s*\(",
        r"\1::mtlshim::literal % [=](",
        29,
    ),
    Rule(
        "gcc takes no attribute after the declarator of a definition",
        r'\s*__attribute__\(\(no_sanitize\("undefined"\)\)\)',
        "",
        6,
    ),
    Rule(
        "gcc binds no reference to a member of a packed struct; through a pointer it does",
        r"return elements\[idx\];",
        "return *(&elements[0] + idx);",
        4,
    ),
    Rule("a weak symbol in the words of ELF", r"\bweak_import\b", "weak", 5),
    Rule(
        "C++20 has no template arguments in the name of a destructor",
        r"~SharedPtr<_Class>\(",
        "~SharedPtr(",
        1,
    ),
    Rule(
        "constants are asked of the runtime, which then need not export them",
        r"dlsym\(\s*RTLD_DEFAULT,\s*",
        "mtlshim_symbol(",
        5,
    ),
)


def rewrite(texts: dict[Path, str]) -> dict[Path, str]:
    for rule in RULES:
        hits = 0
        for path, text in texts.items():
            texts[path], count = re.subn(rule.pattern, rule.replacement, text)
            hits += count
        if hits != rule.hits:
            raise SystemExit(
                f"metal-cpp: {hits} places for the rule '{rule.why}', expected {rule.hits}.\n"
                "These are not the headers that the rules were written for: use those "
                "(unset QWISP_METAL_CPP_DIR), or build with clang, which needs no rewriting."
            )
    for path, text in texts.items():
        if "^" in text:
            raise SystemExit(f"metal-cpp: {path} still has a block after the rewrite")
    return texts


def main(source: Path, copy: Path) -> None:
    texts = {path.relative_to(source): path.read_text() for path in sorted(source.rglob("*.hpp"))}
    for name, text in rewrite(texts).items():
        target = copy / name
        if target.exists() and target.read_text() == text:
            continue  # keep its time, or everything that includes it is compiled again
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
