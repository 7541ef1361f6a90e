"""fp8: refused where it does not exist; where it is emulated, projections multiply in it."""

import pytest
import torch

from gnomon.errors import RecipeError
from gnomon.model import Transformer
from gnomon.model.linear import FusedLinear
from gnomon.training.float8 import float8_product, float8_products
from gnomon.training.precision import choose_precision
from model_configs import BASE, changed


def test_refused_by_name_where_the_device_has_none(monkeypatch):
    with pytest.raises(RecipeError, match=r"(?s)fp8.*training on cpu"):
        choose_precision("fp8", torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (8, 0))
    with pytest.raises(RecipeError, match=r"capability 8\.0"):
        choose_precision("fp8", torch.device("cuda"))


def test_projections_of_fitting_sizes_alone_are_lent_another_product():
    model = Transformer(changed(BASE, {"feedforward.size": 24})).train()
    called = []

    def product(x, weight, bias):
        called.append(tuple(weight.shape))
        return torch.nn.functional.linear(x, weight, bias)

    ids = torch.randint(4, 29, (2, 5))
    with float8_products(model, product):
        model(ids, ids)
    assert called and all(a % 16 == b % 16 == 0 for a, b in called)
    before = len(called)
    model(ids, ids)
    assert len(called) == before  # afterwards all is as it was
    assert all("product" not in vars(m) for m in model.modules() if isinstance(m, FusedLinear))


def test_the_product_is_rounded_to_fp8_forwards_and_backwards():
    pytest.importorskip("torchao")
    torch.manual_seed(0)
    linear = FusedLinear(32, (16, 32), (True, True))
    linear.initialise()
    x = torch.randn(4, 32, requires_grad=True)
    exact = linear(x)
    exact.sum().backward()
    gradient, of_x = linear.weight.grad, x.grad
    linear.weight.grad = x.grad = None
    with float8_products(linear, float8_product(emulate=True)):
        rounded = linear(x)
        rounded.float().sum().backward()
    assert rounded.dtype == torch.bfloat16
    for found, wanted in ((rounded, exact), (linear.weight.grad, gradient), (x.grad, of_x)):
        error = (found.float() - wanted).norm() / wanted.norm()
        assert 0.005 < error < 0.06  # bf16 alone is off by 0.002
