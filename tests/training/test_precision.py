import pytest
import torch

from gnomon.errors import RecipeError
from gnomon.training import precision as precision_module
from gnomon.training.precision import Precision, choose_device, choose_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(("gain", "expected"), [(2.4, "bf16"), (1.2, "fp32"), (0.1, "fp32")])
def test_auto_takes_bf16_only_where_it_is_clearly_faster(monkeypatch, gain, expected):
    monkeypatch.setattr(precision_module, "_bf16_gain", lambda: gain)
    precision = choose_precision("auto", CPU)
    assert precision.name == expected
    assert f"{gain:.1f} times" in precision.reason


def test_the_gain_is_measured_on_this_machine():
    assert 0.001 < precision_module._bf16_gain() < 100


def test_bf16_multiplies_in_bf16_over_fp32_weights():
    linear = torch.nn.Linear(4, 4)
    with choose_precision("bf16", CPU).autocast():
        out = linear(torch.ones(2, 4))
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    assert linear.weight.grad.dtype == linear.weight.dtype == torch.float32


def test_fp32_leaves_everything_alone():
    with choose_precision("fp32", CPU).autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_formats_grow_wider_up_to_fp32():
    fp16 = choose_precision("fp16", CPU)
    bf16 = fp16.wider()
    assert bf16.name == "bf16"
    assert bf16.wider().name == "fp32"
    assert bf16.wider().wider() is None
    assert choose_precision("bf16-master", CPU).wider().name == "bf16"
    assert Precision("fp8", CPU, "").wider().name == "bf16"


def test_a_gpu_without_bf16_gets_fp16_and_an_old_one_fp32(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    for capability, expected in (((7, 5), "fp16"), ((6, 1), "fp32")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, c=capability: c)
        assert choose_precision("auto", torch.device("cuda")).name == expected


def test_unknown_names_are_refused():
    with pytest.raises(RecipeError, match="auto, cpu, cuda"):
        choose_device("abacus")
    with pytest.raises(RecipeError, match="auto, fp32, bf16, bf16-master, fp16, fp8"):
        choose_precision("tf32", CPU)


def test_a_missing_gpu_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == CPU
    with pytest.raises(RecipeError, match="cuda"):
        choose_device("cuda")
