"""Losslessness in a model: speculative decoding gives the tokens of greedy decoding, whatever the route.

`qwisp-native lossless`, or `run(device)`. docs/lossless.md says what is decoded and what is compared.
"""

from __future__ import annotations

from .gate import Gate, run
from .model import Model, load_model
from .plan import Case
from .report import Failure, Report

__all__ = ["Case", "Failure", "Gate", "Model", "Report", "load_model", "run"]
