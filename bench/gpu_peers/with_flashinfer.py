"""cuBLAS (torch.mm) and FlashInfer's top-k; softmax over the K chosen."""

from __future__ import annotations

import torch
from flashinfer import top_k
from peers import TOP_K

from . import GpuPeer
from .with_torch import Captured


def route(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """float16 logits, float32 scores."""
    logits, inds = top_k(torch.mm(x, weight.t()), TOP_K)
    return inds, torch.softmax(logits, dim=-1, dtype=torch.float32)


PEERS: list[GpuPeer] = [Captured("cuBLAS + FlashInfer top_k", route)]
