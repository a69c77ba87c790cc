"""Rules for shaders that neither the C++ compiler nor a run here would enforce: pragmas, and tests/metal.

To add a kernel file nothing is needed: every shaders/*.metal is read, with what it includes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from metal import rules
from metal.syntax import CLANG

SHADERS = Path(__file__).resolve().parents[1] / "shaders"
METAL = sorted(SHADERS.glob("*.metal"))
METAL_RULES = Path(rules.__file__).parent


def code(path: Path) -> str:
    """The file without its comments."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", text)


@pytest.mark.parametrize("path", METAL, ids=lambda p: p.name)
def test_contraction_is_off_unless_the_library_switch_says_otherwise(path: Path) -> None:
    """Safe math does not stop a multiply-add from being fused; the pragma does (docs/apple.md)."""
    text = code(path)
    switch = r"#if !defined\(QWISP_CONTRACT_COMPILER\)\s+#pragma METAL fp contract\(off\)\s+#endif"
    assert re.search(switch, text), f"{path.name}: no guarded contract(off) pragma"
    assert "#pragma METAL fp math_mode(safe)" in text
    head = text.index("#pragma METAL fp math_mode(safe)")
    assert head < text.index("#include"), f"{path.name}: the pragmas stand before the first include"


# On a Mac the shaders are read by Apple's own compiler, and clang has no OpenCL.
NO_CLANG = CLANG is None or sys.platform == "darwin"
needs_clang = pytest.mark.skipif(NO_CLANG, reason="clang with OpenCL is not installed")


@needs_clang
@pytest.mark.parametrize("path", METAL, ids=lambda p: p.name)
def test_rules_of_metal(path: Path) -> None:
    """Address spaces and what else a C++ compiler does not enforce, on what Apple's compiler reads."""
    assert rules.check(path) == []


@needs_clang
@pytest.mark.parametrize("path", sorted((METAL_RULES / "planted").glob("*.metal")), ids=lambda p: p.stem)
def test_a_planted_shader_turns_its_rule_red(path: Path) -> None:
    """The first line says which rule, and a part of the message."""
    rule, _, text = path.read_text().splitlines()[0].removeprefix("// ").partition(": ")
    (found, *_) = rules.check(path)
    assert found.startswith(f"{rule}: "), found
    assert text in found


def test_each_rule_has_a_planted_shader() -> None:
    heads = [path.read_text().split(":")[0] for path in (METAL_RULES / "planted").glob("*.metal")]
    assert {f"// {rule.__name__}" for rule in rules.RULES} <= set(heads)


@needs_clang
def test_a_wrong_address_space_in_a_real_shader(tmp_path: Path) -> None:
    """A device pointer handed on as a threadgroup pointer turns the check red."""
    text = (SHADERS / "route_top8_rows.metal").read_text()
    wrong = text.replace("value, index, chosen,", "value, index, scores,")
    assert wrong != text
    (tmp_path / "wrong.metal").write_text(wrong)
    (found,) = rules.check(tmp_path / "wrong.metal")
    assert "no matching function" in found
