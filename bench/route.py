"""What one call of a Router takes on a device, each variant in turn in one interleaved run.

    python bench/route.py [--device cpu] [--rows 1 2 8] [--repeats 20]

Wall time of the whole Python call: for a look at a device, not for a claim. On the software device it tells
what the executor costs, nothing about a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

import qwisp_native as qn

VARIANTS = ("pair", "single", "last")
HIDDEN, EXPERTS, TOP_K = 2048, 256, 8


def measure(device: qn.Device, rows: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of each call, by variant; the order turns round in every other round."""
    rng = np.random.default_rng(rows)
    gate = qn.Gate.quantize(device, rng.standard_normal((EXPERTS, HIDDEN)).astype(np.float16))
    routers = {name: qn.Router(gate, top_k=TOP_K, fuse=name) for name in VARIANTS}
    x = rng.standard_normal((rows, HIDDEN)).astype(np.float16)
    wanted = routers["pair"](x)
    samples: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for turn in range(repeats + 2):
        for name in VARIANTS if turn % 2 == 0 else reversed(VARIANTS):
            start = time.perf_counter()
            found = routers[name](x)
            elapsed = time.perf_counter() - start
            if not all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True)):
                raise SystemExit(f"{name} differs from the pair at rows={rows}: nothing is measured")
            if turn >= 2:  # the first rounds warm up
                samples[name].append(elapsed)
    return samples


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "metal"])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    device = qn.Device(options.device)
    print(f"{device.name}; microseconds a call: median (p10 to p90) of {options.repeats}")
    for rows in options.rows:
        for name, seconds in measure(device, rows, options.repeats).items():
            deciles = statistics.quantiles([1e6 * each for each in seconds], n=10)
            middle = 1e6 * statistics.median(seconds)
            print(f"rows {rows:3}  {name:6}  {middle:10.1f}  ({deciles[0]:.1f} to {deciles[-1]:.1f})")


if __name__ == "__main__":
    main()
