"""bf16-master: within a pass all is bf16, outside of it nothing is."""

import pytest
import torch
from safetensors.torch import load_file

from gnomon.model import Transformer
from gnomon.training.run import RunFolder
from gnomon.training.short_weights import short_weights
from model_configs import CONFIGS
from training.tiny_task import TinyTask, trainer


class Watched(TinyTask):
    """Notes in which dtype its model is asked."""

    def __init__(self, **model):
        super().__init__(**model)
        self.seen = set()

    def predict(self, batch, inputs, keep):
        logits = super().predict(batch, inputs, keep)
        self.seen |= {logits.dtype, *(p.dtype for p in self.model.parameters())}
        return logits


def test_passes_see_bf16_and_everyone_else_fp32(tmp_path):
    run, task = RunFolder(tmp_path), Watched()
    outside = set()

    def validate(step):
        outside.update(p.dtype for p in task.model.parameters())
        return {"nll": 1.0}

    trainer(run, task, precision="bf16-master", validate=validate, max_steps=5).fit()
    assert task.seen == {torch.bfloat16}
    assert outside == {torch.float32}
    last = run.checkpoints.path(5)
    for name, weights in load_file(last / "model.safetensors").items():
        assert weights.dtype == torch.float32
        assert not weights.equal(weights.bfloat16().float()), name  # the masters' digits
    for name, states in load_file(last / "training.safetensors").items():
        assert "exp_avg" not in name or states.dtype == torch.float32


def test_gradients_of_micro_batches_are_summed_in_fp32():
    """In bf16 a thousandth would vanish beside one."""
    linear = torch.nn.Linear(1, 1, bias=False)
    for size in (1.0, 2.0**-10):
        with short_weights(linear, torch.bfloat16):
            linear(torch.full((1, 1), size, dtype=torch.bfloat16)).backward()
    assert linear.weight.grad.dtype == torch.float32
    assert linear.weight.grad.item() == 1 + 2.0**-10


def test_weights_come_back_bit_for_bit_whatever_happens():
    linear = torch.nn.Linear(3, 3)
    before, storage = linear.weight.detach().clone(), linear.weight.data_ptr()
    with pytest.raises(ZeroDivisionError), short_weights(linear, torch.bfloat16):
        assert linear.weight.dtype == torch.bfloat16
        _ = 1 / 0
    assert linear.weight.equal(before) and linear.weight.data_ptr() == storage


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_every_switch_of_the_model_works_in_bf16(name):
    """Forward and backward; the gradient points where that of fp32 does."""
    torch.manual_seed(0)
    config = CONFIGS[name]
    model = Transformer(config).eval()
    ids = torch.randint(4, 29, (2, 7))
    inputs = (ids, ids) if config.family == "encoder_decoder" else (ids,)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        model.zero_grad(set_to_none=True)
        with short_weights(model, dtype):
            model(*inputs).float().logsumexp(-1).sum().backward()
        dense = (p.grad for p in model.parameters() if p.grad is not None)
        found.append(torch.cat([(g.to_dense() if g.is_sparse else g).flatten() for g in dense]))
    assert found[1].dtype == torch.float32
    assert torch.cosine_similarity(*found, dim=0) > 0.98
