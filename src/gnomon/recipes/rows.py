"""What recipes whose text is packed into rows ask of their tables."""

from __future__ import annotations

from gnomon.model import TransformerConfig
from gnomon.text.document_files import DocumentsConfig
from gnomon.training import TrainingConfig


def row_problems(
    model: TransformerConfig, data: DocumentsConfig, training: TrainingConfig
) -> list[str]:
    """A row must fit into a batch, and within the reach of the model."""
    found = []
    reach = model.max_positions()
    if reach is not None and data.context > reach:
        found.append(
            f"learned positions must reach a whole row; seen: data.context {data.context},"
            f" model.position.max_length {reach}; mend: lower the first or raise the second"
        )
    if training.tokens_per_batch < data.context:
        found.append(
            "training.tokens_per_batch must hold a row; seen: "
            f"{training.tokens_per_batch}, data.context {data.context}; mend: raise "
            "the first or lower the second"
        )
    return found
