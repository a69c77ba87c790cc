"""Trains the small model of `qwisp-native lossless` and writes its folder (PyTorch; CUDA if present).

    python tests/model/train.py --corpus build/corpus.xz --seconds 240 --out build/model

Writes config.json, model.safetensors (MLX format) and training.json: recipe, log, and bits per byte of
held-out text under the float model, the quantised one, and an order-2 model of the same training text.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from folder import config, dequantized, quantized, write_json, write_safetensors
from network import Model, load_weights, weights_of
from order2 import order2_bits

KINDS = ("code", "docs", "prose", "tools", "repeats")
HELD_EVERY, HELD_FIRST = 40, 7  # of each kind, documents 7, 47, 87, ... are held out
BALANCE, WARMUP = 0.01, 200
Text = NDArray[np.uint8]


def split(text: bytes, most: int) -> tuple[Text, dict[str, Text]]:
    """The training text, and at most so many bytes of each kind's documents that training never sees."""
    train, held = [], {}
    for kind, part in zip(KINDS, text.split(b"\0\0"), strict=True):
        documents = part.removesuffix(b"\0").split(b"\0")
        kept = documents[HELD_FIRST::HELD_EVERY]
        held[kind] = np.frombuffer(b"\0".join(kept)[:most], np.uint8)
        train += [text for at, text in enumerate(documents) if at % HELD_EVERY != HELD_FIRST]
    return np.frombuffer(b"\0".join(train), np.uint8), held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="what corpus.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="stop after so many seconds of training"
    )
    parser.add_argument("--steps", type=int, default=20_000, help="stop after so many steps")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--inner", type=int, default=4, help="width of an expert")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=20261203)
    parser.add_argument(
        "--held-bytes", type=int, default=250_000, help="held-out text of each kind that is judged"
    )
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()

    text = lzma.decompress(args.corpus.read_bytes())
    train, held = split(text, args.held_bytes)
    print(
        f"corpus {len(text):,} bytes, training {len(train):,}, held out {sum(map(len, held.values())):,}",
        flush=True,
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    c = config(args.layers, args.inner)
    model = Model(c).to(device)

    began = time.monotonic()
    log, load = fit(model, train, device, args)
    trained = time.monotonic() - began
    weights = weights_of(model)
    float_bits = {kind: model_bits(model, each, args, device) for kind, each in held.items()}
    file = quantized(weights)
    load_weights(model, dequantized(file))
    bits = {kind: model_bits(model, each, args, device) for kind, each in held.items()}
    order2 = order2_bits(train, held)
    for kind in held:
        print(
            f"{kind:8} float {float_bits[kind]:.4f}, quantised {bits[kind]:.4f}, order-2 {order2[kind]:.4f}"
        )

    sizes = {kind: len(each) for kind, each in held.items()}
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / "config.json", c)
    write_safetensors(args.out / "model.safetensors", file)
    told = {
        "recipe": {
            "script": "tests/model/train.py",
            **{name: getattr(args, name) for name in ("batch", "context", "lr", "seed")},
            "optimiser": "AdamW, betas 0.9 and 0.95, weight decay 0.1, gradients clipped to norm 1",
            "schedule": f"{WARMUP} steps of warm-up, then a cosine to a fiftieth",
            "balance_loss": BALANCE,
            "steps": log[-1][0],
            "seconds": round(trained, 1),  # compiling included
            "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
            "torch": torch.__version__,
        },
        "corpus": {
            "script": "tests/model/corpus.py",
            "bytes": len(text),
            "sha256": hashlib.sha256(text).hexdigest(),
        },
        "held_out": {
            "bytes": sizes,
            "documents": f"{HELD_FIRST}, {HELD_FIRST + HELD_EVERY}, ... of each kind",
        },
        "bits_per_byte": {
            name: {"all": mean(each, sizes), **each}
            for name, each in (("float", float_bits), ("quantised", bits), ("order_2", order2))
        },
        "load": {"largest": load.max(1).tolist(), "smallest": load.min(1).tolist(), "even": 8 / 256},
        "log": {"columns": ["step", "loss in bits per byte", "balance loss (1: even)"], "rows": log},
    }
    write_json(args.out / "training.json", told)
    print(f"held out: {told['bits_per_byte']}\nwritten: {args.out}")


def fit(
    model: Model, train: Text, device: torch.device, args: argparse.Namespace
) -> tuple[list[list[Any]], NDArray[np.float32]]:
    """Train in place; return the log, and the load of each layer in its last tenth, [layers, experts]."""
    stream = torch.from_numpy(train.copy()).to(device)
    span = torch.arange(args.context + 1, device=device)
    random = torch.Generator(device=device).manual_seed(args.seed)
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95), fused=device.type == "cuda")

    def step(run: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        starts = torch.randint(len(stream) - args.context, (args.batch, 1), device=device, generator=random)
        tokens = stream[starts + span].long()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss, balance, load = run(tokens[:, :-1], tokens[:, 1:])
        (loss + BALANCE * balance).backward()
        return loss.detach(), balance.detach(), load.detach()

    run: Any = model
    if device.type == "cuda" and not args.no_compile:
        began = time.monotonic()
        try:
            run = torch.compile(model)
            step(run)
            torch.cuda.synchronize()
            print(f"compiled in {time.monotonic() - began:.0f} s", flush=True)
        except Exception as error:  # whatever is amiss there, training goes on
            print(f"not compiled: {type(error).__name__}: {str(error)[:300]}", flush=True)
            run = model
        optimiser.zero_grad(set_to_none=True)

    log: list[list[Any]] = []
    loads = torch.zeros(len(model.layers), model.c["num_experts"], device=device)
    late = 0
    began = told = time.monotonic()
    every = 25 if device.type == "cuda" else 5
    for at in range(args.steps):
        done = max(at / args.steps, (time.monotonic() - began) / args.seconds)
        if done >= 1:
            break
        rate = args.lr * min(1, (at + 1) / WARMUP) * (0.02 + 0.98 * (0.5 + 0.5 * math.cos(math.pi * done)))
        for group in optimiser.param_groups:
            group["lr"] = rate
        loss, balance, load = step(run)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if done > 0.9:
            loads += load
            late += 1
        if at % every == every - 1:
            log.append(
                [at + 1, round(loss.item() / math.log(2), 4), round(balance.item(), 4)]
            )  # waits for the device
            if not math.isfinite(log[-1][1]):
                raise SystemExit(f"the loss is {log[-1][1]} at step {at + 1}: try a smaller --lr")
            if time.monotonic() - told > 5:
                told = time.monotonic()
                _, bits, even = log[-1]
                print(
                    f"{100 * done:5.1f} %  step {at + 1:6}  {bits:.4f} bits per byte  balance {even:.3f}",
                    flush=True,
                )
    if not log:
        raise SystemExit(f"not one log line in {args.seconds} s: at least {every} steps are needed")
    return log, (loads / max(1, late)).cpu().numpy()


@torch.no_grad()
def model_bits(model: Model, text: Text, args: argparse.Namespace, device: torch.device) -> float:
    """Bits per byte in windows of the context's length, the first byte of each given, in float32."""
    torch.set_float32_matmul_precision("highest")
    tokens = torch.from_numpy(text.astype(np.int64)).to(device)
    total = count = 0
    for start in range(0, len(tokens) - 1, args.context):
        part = tokens[start : start + args.context + 1]
        loss, _, _ = model(part[None, :-1], part[None, 1:])
        total += loss.item() * (len(part) - 1)
        count += len(part) - 1
    return total / count / math.log(2)


def mean(bits: dict[str, float], sizes: dict[str, int]) -> float:
    return sum(bits[kind] * sizes[kind] for kind in sizes) / sum(sizes.values())


if __name__ == "__main__":
    main()
