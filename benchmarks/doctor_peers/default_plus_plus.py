"""DEFault++'s shipped predictor on a short run.

It was trained on whole fine-tuning runs of models of 66 to 125 million parameters; what it says of
a small model after 60 steps is reported as it is, beside what it says of the healthy twin.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

EPOCHS = 3
STEPS_PER_EPOCH = 20


def diagnosis(
    module: nn.Module, batch: dict[str, Tensor], optimizer: Optimizer, decoder: bool
) -> set[str]:
    """{"faulty: CATEGORY"} or nothing."""
    from defaultplusplus import FeatureExtractor
    from defaultplusplus.diagnosis import load_pretrained
    from defaultplusplus.processing import RuntimeNormalizer

    kind = "decoder" if decoder else "encoder"
    extractor = FeatureExtractor(module, arch=kind)
    module.train()
    for epoch in range(EPOCHS):
        for _ in range(STEPS_PER_EPOCH):
            optimizer.zero_grad()
            out = module(**batch, output_attentions=True, output_hidden_states=True)
            out.loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            extractor.step(
                loss=out.loss,
                outputs=out,
                input_ids=batch["input_ids"],
                attention_mask=batch.get("attention_mask"),
                labels=batch["labels"],
                optimizer=optimizer,
                step_time=0.01,
            )
            optimizer.step()
        extractor.epoch_end(epoch)
    features = RuntimeNormalizer.load(kind).encode(extractor.finalize(), mode="raw")
    said = load_pretrained(kind).predict(features)
    return {f"faulty: {said.category}"} if said.is_faulty else set()
