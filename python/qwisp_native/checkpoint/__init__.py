"""Router gates out of MLX-format checkpoints."""

from .load import Checkpoint, GateWeights, load_gates

__all__ = ["Checkpoint", "GateWeights", "load_gates"]
