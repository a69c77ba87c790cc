"""cuBLAS (torch.mm) and vLLM's fused softmax and top-k."""

from __future__ import annotations

import torch
from peers import TOP_K
from vllm.model_executor.layers.fused_moe import fused_topk

from . import GpuPeer
from .with_torch import Captured


def route(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """float16 logits, float32 scores."""
    scores, inds, *_ = fused_topk(x, torch.mm(x, weight.t()), TOP_K, renormalize=True)
    return inds, scores


PEERS: list[GpuPeer] = [Captured("cuBLAS + vLLM fused_topk", route)]
