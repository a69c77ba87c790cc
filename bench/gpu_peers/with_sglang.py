"""cuBLAS (torch.mm) and SGLang's fused softmax and top-k."""

from __future__ import annotations

import torch
from peers import TOP_K
from sgl_kernel import topk_softmax

from . import GpuPeer
from .with_torch import Captured


def route(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """float16 logits, float32 scores."""
    scores = torch.empty((len(x), TOP_K), dtype=torch.float32, device=x.device)
    inds = torch.empty((len(x), TOP_K), dtype=torch.int32, device=x.device)
    topk_softmax(scores, inds, torch.mm(x, weight.t()), renormalize=True)
    return inds, scores


PEERS: list[GpuPeer] = [Captured("cuBLAS + SGLang topk_softmax", route)]
