"""Sees every attention call of any torch module, without knowing the model.

Imports only torch and `gnomon.errors`; knows nothing of gnomon's own models.
"""

from __future__ import annotations

from gnomon.probe.attention import AttentionCall
from gnomon.probe.compare import Difference, compare_unobserved
from gnomon.probe.observe import observe
from gnomon.probe.origin import Origin, Trail, origins
from gnomon.probe.record import (
    ActivationCall,
    DropoutCall,
    EmbeddingCall,
    FusedKernel,
    ModuleCall,
    NormCall,
    ProjectionCall,
    RandomOp,
    Record,
    SoftmaxCall,
    Statistics,
)

__all__ = [
    "ActivationCall",
    "AttentionCall",
    "Difference",
    "DropoutCall",
    "EmbeddingCall",
    "FusedKernel",
    "ModuleCall",
    "NormCall",
    "Origin",
    "ProjectionCall",
    "RandomOp",
    "Record",
    "SoftmaxCall",
    "Statistics",
    "Trail",
    "compare_unobserved",
    "observe",
    "origins",
]
