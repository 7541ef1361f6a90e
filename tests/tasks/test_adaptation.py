"""Fine-tuning: what is taken over, what stays as it was, and low-rank matrices beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import gnomon
from gnomon import api
from gnomon.errors import ModelError, RecipeError
from gnomon.interop import import_model
from gnomon.model import ClassifierConfig, ClassifierNetwork, LoraConfig, Transformer
from gnomon.model.lora import LowRank
from gnomon.training import OptimizerConfig
from gnomon.training.optimizers import Optimizer, group_parameters
from interop.zoo import save
from label_training import RECIPE, write
from model_configs import CONFIGS
from small_training import Stop

FINE = ["training.max_steps=20", "training.validate_every=20", "schedule.peak=1e-2"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of two layers, hardly trained."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "r.toml").write_text(RECIPE)
    settings = ["training.max_steps=10", "model.num_encoder_layers=2"]
    run = folder / "base"
    api.train(folder / "r.toml", data=write(folder, "single"), overrides=settings, run=run)
    return run


def tune(folder: Path, base: Path | None, *settings: str, **options: Any) -> api.Training:
    """Train on other labels."""
    (folder / "r.toml").write_text(RECIPE)
    data = folder / "other.tsv"
    rows = [
        f"{word} {number}\t{label}"
        for number in range(60)
        for word, label in (("dog", "x"), ("pen", "y"), ("cup", "z"))
    ]
    data.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    return api.train(
        folder / "r.toml",
        data=data,
        overrides=[*FINE, *settings],
        run=options.pop("run", folder / "tuned"),
        start_from=base,
        **options,
    )


def test_a_model_with_rows_that_no_text_uses(tmp_path: Path) -> None:
    """T5 has 32,128 rows for 32,100 ids: what was fine-tuned from such a model can be used."""
    save("bert_base", tmp_path / "theirs", more_rows=7)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    training = tune(tmp_path, tmp_path / "ours")
    classifier = gnomon.load(training.run)
    assert classifier.network.network.config.vocab_size == classifier.framing.vocab_size + 7
    assert classifier.classify(["w1"])[0].labels[0] in {"x", "y", "z"}


def weights(run: Path, checkpoint: str = "last") -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = gnomon.load(run, checkpoint=checkpoint).network.state_dict()
    return found


def test_other_labels_are_learned_on_the_same_network(base: Path, tmp_path: Path) -> None:
    said: list[str] = []
    training = tune(tmp_path, base, say=said.append)
    assert any("the labels are learned anew" in line for line in said)
    assert training.recipe.model.num_encoder_layers == 2  # the base's, not the recipe's
    assert gnomon.load(training.run).labels == ("x", "y", "z")
    assert gnomon.load(training.run).framing.fingerprint == gnomon.load(base).framing.fingerprint
    with pytest.raises(ModelError, match="model of one stack"):
        from digits import DIGITS_RECIPE, write_digits

        (tmp_path / "t.toml").write_text(DIGITS_RECIPE)
        pairs = write_digits(tmp_path)
        settings = ["training.max_steps=1"]
        api.train(tmp_path / "t.toml", data=pairs, overrides=settings, run=tmp_path / "t")
        tune(tmp_path, tmp_path / "t", run=tmp_path / "never")


def test_the_same_labels_are_kept(base: Path, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(RECIPE)
    said: list[str] = []
    training = api.train(
        tmp_path / "r.toml",
        data=write(tmp_path, "single"),
        overrides=["training.max_steps=1", "schedule.peak=1e-30", "schedule.warmup_steps=0"],
        run=tmp_path / "on",
        start_from=base,
        say=said.append,
    )
    assert not any("anew" in line for line in said)
    before, after = weights(base, "best"), weights(training.run)
    for name, value in before.items():
        assert torch.allclose(value, after[name], atol=1e-6), name


@pytest.mark.parametrize(
    ("settings", "moves"),
    [
        ([], {"tables", "layers.0", "layers.1", "out"}),
        (["adaptation.freeze_embeddings=true"], {"layers.0", "layers.1", "out"}),
        (["adaptation.freeze_layers=1"], {"layers.1", "out"}),
        (["adaptation.freeze_network=true"], {"out"}),
    ],
)
def test_what_is_frozen_stays_bit_for_bit(
    base: Path, tmp_path: Path, settings: list[str], moves: set[str]
) -> None:
    training = tune(tmp_path, base, *settings)
    before, after = weights(base, "best"), weights(training.run)
    moved = {name for name in after if not torch.equal(before.get(name, after[name]), after[name])}
    for part in ("tables", "layers.0", "layers.1"):
        assert any(f".{part}." in name for name in moved) == (part in moves), part


def network() -> ClassifierNetwork:
    torch.manual_seed(0)
    found = ClassifierNetwork(
        Transformer(CONFIGS["encoder_headless"]), ClassifierConfig(), 3, per_token=False
    )
    return found.eval()


def test_lora_adds_nothing_at_first_and_merges_to_the_same() -> None:
    ids = torch.randint(4, 20, (2, 7))
    keep = torch.ones_like(ids, dtype=torch.bool)
    found = network().double()
    plain = found(ids, keep)
    found.add_lora(LoraConfig(rank=2, targets=("attention", "feedforward")))
    assert torch.equal(found(ids, keep), plain)
    for module in found.modules():
        if isinstance(module, LowRank):
            torch.nn.init.normal_(module.up)
    changed = found(ids, keep)
    assert not torch.allclose(changed, plain, atol=1e-3)
    found.merge_lora()
    assert torch.allclose(found(ids, keep), changed, atol=1e-12)
    assert not any(isinstance(module, LowRank) for module in found.modules())


def test_lora_trains_few_parameters_and_leaves_the_rest(base: Path, tmp_path: Path) -> None:
    tasks: list[Any] = []
    training = tune(tmp_path, base, "lora.rank=4", before_start=tasks.append)
    trained = [name for name, p in tasks[0].model.named_parameters() if p.requires_grad]
    assert trained
    assert all("low_rank" in name or name.startswith("out.") for name in trained)
    before = {name: value for name, value in weights(base, "best").items() if "tables" in name}
    after = weights(training.run)
    assert not any("low_rank" in name for name in after)  # what is loaded to be used is merged
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert not torch.equal(
        weights(base, "best")["network.encoder.layers.0.attention.query_key_value.weight"],
        after["network.encoder.layers.0.attention.query_key_value.weight"],
    )


def test_a_killed_lora_training_goes_on_bitwise_without_naming_the_base(
    base: Path, tmp_path: Path
) -> None:
    whole = tune(tmp_path, base, "lora.rank=4", run=tmp_path / "whole")
    parts = tune(tmp_path, base, "lora.rank=4", run=tmp_path / "parts", listeners=[Stop(7)])
    assert not parts.outcome.finished
    assert tune(tmp_path, None, "lora.rank=4", run=tmp_path / "parts").outcome.finished
    one, other = weights(whole.run), weights(parts.run)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_each_layer_learns_slower_than_the_one_above() -> None:
    found = network()
    config = OptimizerConfig(layer_decay=0.5, weight_decay=0.01)
    groups = group_parameters(found, config)
    names = [name for group in groups for name in group.parameters]
    assert sorted(names) == sorted(name for name, _ in found.named_parameters())
    num_layers = found.network.config.num_encoder_layers
    for group in groups:
        for name in group.parameters:
            if ".layers." in name:
                depth = int(name.split(".layers.")[1].split(".")[0]) + 1
            elif "tables" in name or "embedding" in name:
                depth = 0
            else:
                depth = num_layers + 1
            assert group.rate == 0.5 ** (num_layers + 1 - depth), name
    before = {name: p.detach().clone() for name, p in found.named_parameters()}
    for parameter in found.parameters():
        parameter.grad = torch.ones_like(parameter)
    Optimizer(found, OptimizerConfig(layer_decay=0.5)).step(1e-3)
    moved = {
        name: float((p.detach() - before[name]).abs().max()) for name, p in found.named_parameters()
    }
    assert moved["out.weight"] == pytest.approx(1e-3, rel=1e-3)
    table = next(name for name in moved if "tables" in name)
    assert moved[table] == pytest.approx(1e-3 * 0.5 ** (num_layers + 1), rel=1e-3)


def test_rules_between_tables(tmp_path: Path, base: Path) -> None:
    for settings, message in (
        (["lora.rank=2", "adaptation.freeze_layers=1"], "freezes the network by itself"),
        (["lora.rank=2", "network=bilstm"], "is for Transformers"),
        (["lora.rank=-1"], "rank must be 0 or more"),
        (["optimizer.layer_decay=0"], "layer_decay must be above 0"),
        (["network=bilstm"], "keeps the network it starts from"),
    ):
        with pytest.raises(RecipeError, match=message):
            tune(tmp_path, base, *settings, run=tmp_path / "never")


def test_an_encoder_with_a_head_and_a_pooler_is_taken_over_without_them(
    base: Path, tmp_path: Path
) -> None:
    from dataclasses import replace

    from gnomon.model import HeadConfig
    from gnomon.tasks import Encoder, EncoderConfig, save_encoder

    classifier = gnomon.load(base)
    config = replace(
        classifier.network.network.config, head=HeadConfig(kind="transform"), pooler=True, tie="all"
    )
    torch.manual_seed(3)
    encoder = Encoder(Transformer(config), classifier.framing, EncoderConfig())
    save_encoder(encoder, tmp_path / "encoder")
    reports: list[Any] = []
    settings = ["training.max_steps=1", "schedule.peak=1e-30", "schedule.warmup_steps=0"]
    training = tune(tmp_path, tmp_path / "encoder", *settings, examined=reports.append)
    assert not reports[0].of("fail")
    found = weights(training.run)
    assert not any("pooler" in name or ".head." in name for name in found)
    own = encoder.model.state_dict()
    names = [name for name in found if ".encoder.layers." in name]
    assert names
    for name in names:
        assert torch.allclose(found[name], own[name.removeprefix("network.")], atol=1e-6)


@pytest.mark.parametrize("network", ["transformer", "bilstm"])
def test_no_more_layers_stay_than_there_are(network: str) -> None:
    from gnomon.model import BiLSTM, BiLSTMConfig
    from gnomon.tasks.adaptation import AdaptationConfig, adapt

    config = CONFIGS["bert"]
    inner = Transformer(config) if network == "transformer" else BiLSTM(BiLSTMConfig(d_model=8))
    found = ClassifierNetwork(inner, ClassifierConfig(), 2, per_token=False)
    layers = config.num_encoder_layers if network == "transformer" else 0
    adapt(found, AdaptationConfig(freeze_layers=layers), LoraConfig())
    with pytest.raises(RecipeError, match=f"{layers + 1} of {layers}"):
        adapt(found, AdaptationConfig(freeze_layers=layers + 1), LoraConfig())


def test_a_bilstm_is_taken_over_with_the_recipes_dropout() -> None:
    from gnomon.api.jobs.base import Base
    from gnomon.model import BiLSTM, BiLSTMConfig
    from gnomon.recipes import load_recipe
    from gnomon.text import Tokenizer, VocabularyConfig
    from gnomon.text.framing import OwnFraming

    framing = OwnFraming(Tokenizer.train(["dog pen"] * 9, VocabularyConfig(vocab_size=300)))
    given = BiLSTM(BiLSTMConfig(vocab_size=framing.vocab_size, d_model=8, dropout=0.3))
    recipe: Any = load_recipe("bilstm", ["bilstm.dropout=0.5", "bilstm.d_model=64"])
    taken = Base(Path("base"), given, framing, None).network_for(recipe)
    assert (taken.config.dropout, taken.config.d_model) == (0.5, 8)
    for name, value in taken.state_dict().items():
        assert torch.equal(value, given.state_dict()[name])
