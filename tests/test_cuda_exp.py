"""exp of the cuda device, which is the text of msl_cuda.h: (float)exp((double)x), bit for bit.

The text itself is compiled here for the processor, with its intrinsics as the same IEEE operations, and held
against the C library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HEADER = Path(__file__).parents[1] / "cpp" / "metal_runtime" / "drivers" / "cuda" / "msl_cuda.h"
COMPILER = next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))), None)

AROUND = """
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#define __forceinline__ inline
static double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
static double __dadd_rn(double a, double b) { return a + b; }
static double __dmul_rn(double a, double b) { return a * b; }
static int __double2hiint(double a) { return int(std::bit_cast<uint64_t>(a) >> 32); }
static int __double2loint(double a) { return int(uint32_t(std::bit_cast<uint64_t>(a))); }
static double __hiloint2double(int high, int low) {
    return std::bit_cast<double>(uint64_t(uint32_t(high)) << 32 | uint32_t(low));
}
@TEXT@
static uint64_t compared = 0, wrong = 0;
static void compare(uint32_t bits) {
    const float x = std::bit_cast<float>(bits), got = precise::exp(x), want = float(std::exp(double(x)));
    ++compared;
    if ((got != got && want != want) || std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want)) return;
    if (++wrong <= 5) std::printf("exp(%a): %a instead of %a\\n", double(x), double(got), double(want));
}
static void around(float x, int64_t reach) {
    const int64_t middle = std::bit_cast<uint32_t>(x);
    for (int64_t at = middle - reach; at <= middle + reach; ++at) compare(uint32_t(at));
}
int main(int, char **arguments) {  // STRIDE FIRST
    const uint64_t stride = std::strtoull(arguments[1], nullptr, 10);
    for (uint64_t at = std::strtoull(arguments[2], nullptr, 10); at < uint64_t{1} << 32; at += stride)
        compare(uint32_t(at));
    // Denser from 2^-20 to 104, where there is something to compute.
    for (uint32_t at = 0x35800000; stride > 1 && at < 0x42d00000; at += 113) {
        compare(at);
        compare(at | 0x80000000);
    }
    // 0 and the subnormals, infinity and the NaNs, of both signs; 1 on both sides.
    for (const float x : {0.0f, 1.17549435e-38f, 1.0f, INFINITY, NAN}) {
        around(x, 2000);
        around(-x, 2000);
    }
    // The last finite result, the last normal one, the last that is not 0, and the bounds of the text.
    for (const float x : {88.72284f, -87.33655f, -103.97208f, -103.27893f, 90.0f, -110.0f}) around(x, 20000);
    // Where the rounded multiple of ln 2 changes.
    for (int n = -160; n < 132; ++n) around(float((n + 0.5) * 0.69314718055994531), 1000);
    std::printf("%llu compared, %llu wrong\\n", (unsigned long long)compared, (unsigned long long)wrong);
    return wrong != 0;
}
"""


def exp_text() -> str:
    text = HEADER.read_text()
    start, end = "namespace precise {\n", "\n}  // namespace precise\n"
    assert (text.count(start), text.count(end)) == (1, 1)
    return text[text.index(start) : text.index(end)] + end


def compared(folder: Path, text: str, stride: int, first: int = 0) -> tuple[int, str]:
    """(exit status, what the comparison said)."""
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    source, program = folder / "exp.cpp", folder / "exp"
    source.write_text(AROUND.replace("@TEXT@", text))
    options = ["-std=c++20", "-O2", "-fwrapv", "-ffp-contract=off"]
    words = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
    options += ["-mfma"] if "fma" in words else []  # the same bits as the library's, and faster
    subprocess.run([COMPILER, *options, str(source), "-o", str(program), "-lm"], check=True)
    done = subprocess.run(
        [program, str(stride), str(first)], capture_output=True, text=True, timeout=3000, check=False
    )
    return done.returncode, done.stdout


def test_every_thousandth_float_and_all_bounds(tmp_path: Path) -> None:
    status, said = compared(tmp_path, exp_text(), 1021)
    assert status == 0, said
    assert int(said.split()[0]) > 8_000_000


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("1.0 / 40320", "1.0 / 40321"),
        ("1.0 / 3628800", "0.0"),
        ("1.4426950408889634", "1.4"),
        ("-1.90821492927058770e-10", "0.0"),
        ("-110.0f ? -110.0f", "-104.0f ? -103.0f"),
        ("> 90.0f ? 90.0f", "> 88.0f ? 88.0f"),
    ],
)
def test_a_changed_constant_is_seen(tmp_path: Path, right: str, wrong: str) -> None:
    text = exp_text()
    assert right in text
    status, said = compared(tmp_path, text.replace(right, wrong), 1021)
    assert status == 1, said


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_float(tmp_path: Path) -> None:
    status, said = compared(tmp_path, exp_text(), 1)
    assert status == 0, said
    assert int(said.split()[0]) >= 2**32
