"""The checks of the group `weights`, beyond each one's own example."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gnomon.doctor import all_checks
from gnomon.doctor.examine import examine
from gnomon.doctor.facts.layers.kinds import by_kind, kind
from gnomon.doctor.finding import Finding
from gnomon.doctor.patient import Patient


def verdict(code: str, module: nn.Module, **fields: Any) -> Finding:
    return examine(Patient(module=module, **fields), [all_checks()[code]]).findings[0]


def encoder(layers: int = 2) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    stack = [nn.TransformerEncoderLayer(32, 2, 64, 0.0, batch_first=True) for _ in range(layers)]
    model = nn.TransformerEncoder(stack[0], layers, enable_nested_tensor=False)
    model.layers = nn.ModuleList(stack)
    return model


def text() -> dict[str, Tensor]:
    return {"src": torch.randn(2, 6, 32)}


def trained(model: nn.Module) -> nn.Module:
    """As training leaves it: gains apart, a few strong directions in every matrix."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.05 * torch.randn_like(parameter)
            else:
                rows, columns = parameter.shape
                parameter += 0.1 * torch.randn(rows, 2) @ torch.randn(2, columns)
    return model


def test_kinds_leave_out_the_numbers_of_layers_alone() -> None:
    assert kind("h.10.mlp.fc1.weight") == "h.*.mlp.fc1.weight"
    assert by_kind(["a.0.w", "a.1.w", "b.w"]) == {"a.*.w": ["a.0.w", "a.1.w"], "b.w": ["b.w"]}


def test_last_projections_that_start_at_zero_are_as_they_should_be() -> None:
    model = encoder()
    for layer in model.layers:
        nn.init.zeros_(layer.linear2.weight)
    assert verdict("empty-weights", model, batch=text()).verdict == "pass"
    with torch.no_grad():
        model.layers[0].linear2.weight.normal_()
    found = verdict("empty-weights", model, batch=text())
    assert found.verdict == "warn" and found.where == ("layers.1.linear2.weight",)


def test_a_trained_model_with_a_projection_of_zeros_is_told() -> None:
    model = encoder()
    trained(model)
    for layer in model.layers:
        nn.init.zeros_(layer.linear2.weight)
    assert verdict("empty-weights", model, batch=text()).verdict == "warn"


def test_a_row_of_a_projection_to_few_classes_is_a_row() -> None:
    model = nn.Sequential(encoder(), nn.Linear(32, 2))
    assert verdict("empty-weights", model, batch=(text()["src"],)).verdict == "pass"
    nn.init.zeros_(model[1].weight[0])
    found = verdict("empty-weights", model, batch=(text()["src"],))
    assert found.verdict == "warn" and found.where == ("1.weight",)


@pytest.mark.parametrize("draw", ["normal", "uniform"])
def test_noise_is_seen_whatever_it_is_drawn_from(draw: str) -> None:
    model = encoder()
    trained(model)
    assert verdict("untrained-weights", model, batch=text()).verdict == "pass"
    for layer in model.layers:
        weight = layer.linear1.weight
        if draw == "normal":
            nn.init.normal_(weight, std=0.3)
        else:
            nn.init.uniform_(weight, -0.02, 0.02)
    found = verdict("untrained-weights", model, batch=text())
    assert found.verdict == "warn"
    assert found.where == ("layers.0.linear1.weight", "layers.1.linear1.weight")


def test_one_matrix_at_chance_among_trained_ones_of_its_kind_is_chance() -> None:
    model = encoder()
    trained(model)
    nn.init.normal_(model.layers[0].linear1.weight)
    assert verdict("untrained-weights", model, batch=text()).verdict == "pass"


def test_a_model_that_was_hardly_trained_is_not_called_untrained_in_part() -> None:
    model = encoder()
    with torch.no_grad():
        for layer in model.layers:
            layer.norm1.weight += 0.05 * torch.randn(32)
            layer.linear2.weight += 0.2 * torch.randn(32, 2) @ torch.randn(2, 64)
    assert verdict("untrained-weights", model, batch=text()).verdict == "pass"


def bert(**choices: Any) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model: nn.Module = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=64, **choices,
        )
    )  # fmt: skip
    return model.eval()


def test_another_scale_is_told_from_the_one_that_the_configuration_names() -> None:
    assert verdict("initial-weights", bert()).verdict == "pass"
    assert verdict("initial-weights", bert(initializer_range=0.1)).verdict == "pass"
    model = bert()
    with torch.no_grad():
        for layer in model.encoder.layer:  # type: ignore[union-attr, operator]
            layer.intermediate.dense.weight.mul_(2.0)
    found = verdict("initial-weights", model)
    assert found.verdict == "warn" and len(found.where) == 2
    assert all("intermediate.dense.weight" in each for each in found.where)


def test_exchanged_projections_are_seen_in_modules_of_their_own() -> None:
    model = bert()
    with torch.no_grad():
        for layer in model.encoder.layer:  # type: ignore[union-attr, operator]
            layer.output.LayerNorm.weight.add_(0.05 * torch.randn(32))
            layer.attention.self.query.bias.normal_()
    assert verdict("query-key-exchanged", model).verdict == "pass"
    for layer in model.encoder.layer:  # type: ignore[union-attr, operator]
        own = layer.attention.self
        own.query, own.key = own.key, own.query
    found = verdict("query-key-exchanged", model)
    assert found.verdict == "warn" and len(found.where) == 2


class Speaker(nn.Module):
    """A decoder of one layer over 20 ids."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 32)
        self.layer = nn.TransformerEncoderLayer(
            32, 2, 64, dropout=0.0, batch_first=True, norm_first=True
        )
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 20)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = ~torch.ones(ids.size(1), ids.size(1)).tril().bool()
        output: Tensor = self.head(self.norm(self.layer(self.embed(ids), src_mask=hidden)))
        return output


def walks(rows: int = 32) -> dict[str, Tensor]:
    """Each step goes up by 1, 2 or 3: more than ln 3 nobody can know."""
    return {"ids": torch.randint(1, 4, (rows, 9)).cumsum(1) % 20}


def smoothed(module: nn.Module, batch: dict[str, Tensor], smoothing: float = 0.0) -> Tensor:
    logits = module(batch["ids"])[:, :-1]
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), batch["ids"][:, 1:].flatten(), label_smoothing=smoothing
    )


def spoken(smoothing: float = 0.0) -> Speaker:
    torch.manual_seed(0)
    model = Speaker()
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        smoothed(model, walks(), smoothing).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model


def test_the_factor_that_undoes_a_rescaling_is_named_and_nothing_is_left_changed() -> None:
    model = spoken()
    for parameter in (model.layer.norm1, model.layer.norm2, model.norm):
        parameter.weight.data.mul_(0.2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = verdict("rescaled-weights", model, batch=walks(), loss=smoothed)
    assert found.verdict == "warn" and "the gains of all norms times 5" in found.evidence
    assert set(found.where) == {"layer.norm1.weight", "layer.norm2.weight", "norm.weight"}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_model_made_unsure_by_label_smoothing_is_not_rescaled() -> None:
    model = spoken(smoothing=0.3)
    found = verdict("rescaled-weights", model, batch=walks(), loss=smoothed)
    assert found.verdict == "pass", found.evidence


def test_a_trained_model_worse_than_guessing_is_told() -> None:
    model = spoken()
    assert verdict("initial-loss", model, batch=walks(), loss=smoothed).verdict == "pass"
    model.head.weight.data.neg_()
    found = verdict("initial-loss", model, batch=walks(), loss=smoothed)
    assert found.verdict in ("warn", "fail")


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_gains_that_were_moved_together_are_told(factor: float) -> None:
    model = encoder()
    trained(model)
    assert verdict("norm-weights", model, batch=text()).verdict == "pass"
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            parameter.data.mul_(factor)
    assert verdict("norm-weights", model, batch=text()).verdict == "warn"


def test_gains_that_long_training_took_far_from_1_are_apart_and_usual() -> None:
    model = encoder()
    trained(model)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            spread = 0.1 * torch.randn(parameter.shape, generator=generator)
            parameter.data.copy_(0.62 + spread)
    assert verdict("norm-weights", model, batch=text()).verdict == "pass"


def test_shifts_with_one_number_added_are_told() -> None:
    model = encoder()
    trained(model)
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith("bias"):
            parameter.data.add_(0.5)
    found = verdict("norm-weights", model, batch=text())
    assert found.verdict == "warn" and "shifts" in found.evidence
