"""Runs the step of a crash bundle again and says what happened first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.finding import Finding
from gnomon.doctor.monitors.autopsy import explain, finding_of, look_into
from gnomon.doctor.monitors.bundle import Bundle, load_weights, read_bundle
from gnomon.doctor.report import Report
from gnomon.doctor.restore import untouched
from gnomon.errors import DoctorError
from gnomon.training.generators import restore_generator_states

_CPU = torch.device("cpu")


def replay(
    folder: Path | str,
    module: nn.Module | None = None,
    *,
    loss: Callable[[Any], Tensor] | None = None,
) -> Report:
    """Run the failed pass of a bundle again, on the CPU.

    Args:
        module: for a bundle of one's own model: that model, built anew; its weights are replaced.
        loss: from its output to the loss, so that the backward pass is run, too.

    Returns:
        A report with one finding, "non-finite". Of one's own model without `module` it is the
        finding that was made when the step failed; `facts["run again"]` says which.

    Raises:
        DoctorError: no bundle, a damaged one, or one of another module.
    """
    start = time.perf_counter()
    bundle = read_bundle(folder)
    facts: dict[str, Any] = {"step": bundle.step, "kind": bundle.kind}
    facts |= {key: bundle.record[key] for key in ("lines", "precision") if key in bundle.record}
    if bundle.kind == "gnomon":
        finding = _of_run(bundle)
    elif module is not None:
        finding = _of_module(bundle, module, loss)
    elif bundle.kind == "huggingface":
        finding = _of_module(bundle, _hugging_face(bundle), loss)
    else:
        facts["run again"] = (
            "no: its model's own code is needed; gnomon.doctor.monitors.replay(bundle, module), or "
            "gnomon doctor BUNDLE --code FILE.py:FUNCTION"
        )
        return _report(bundle, bundle.finding, facts, start)
    facts["run again"] = "yes"
    facts["as it was"] = finding.where[:1] == bundle.finding.where[:1]
    return _report(bundle, finding, facts, start)


def _report(bundle: Bundle, finding: Finding, facts: dict[str, Any], start: float) -> Report:
    seconds = time.perf_counter() - start
    name = f"crash bundle {bundle.folder}"
    return Report(name, (replace(finding, seconds=seconds),), facts, seconds)


def _of_run(bundle: Bundle) -> Finding:
    from gnomon.recipes import ClassificationRecipe, DocumentRecipe, load_recipe
    from gnomon.training import Objective
    from gnomon.training.precision import choose_precision

    recipe = load_recipe(bundle.folder / "recipe.toml")
    opened = _translations
    if isinstance(recipe, ClassificationRecipe):
        opened = _labels
    elif isinstance(recipe, DocumentRecipe):
        opened = _documents
    model, pad_id, predict = opened(bundle)
    model.train()
    objective = Objective(recipe.objective, pad_id=pad_id)
    name = str(bundle.record["precision"])
    precision = choose_precision("bf16" if name == "fp8" else name, _CPU)  # CPUs have no fp8
    num_tokens = int(bundle.record["num_tokens"])

    def run() -> Tensor:
        total = torch.zeros(())
        for number in range(int(bundle.record["num_batches"])):
            batch = {
                name.removeprefix(f"{number}."): value.repeat(objective.num_passes, 1)
                for name, value in bundle.batch.items()
                if name.startswith(f"{number}.")
            }
            with precision.weights(model):
                with precision.autocast():
                    target = bundle.batch[f"{number}.target"]
                    sums = objective(target, partial(predict, batch))
                (sums.loss / num_tokens).backward()  # type: ignore[no-untyped-call]
            total = total + sums.loss.detach() / num_tokens
        return total

    before = partial(restore_generator_states, bundle.generators, _CPU)
    with untouched(model):
        autopsy = look_into(model, run, before_each=before)
    return finding_of(explain(autopsy, f"step {bundle.step} run again from its bundle"))


Predict = Callable[[dict[str, Tensor], Tensor, Tensor], Tensor]


def _translations(bundle: Bundle) -> tuple[nn.Module, int, Predict]:
    """The model of a translation's bundle, what marks padding, and its logits of a batch."""
    from gnomon.tasks.folder import load_translator
    from gnomon.tasks.likelihood import predict

    model = load_translator(bundle.model).model

    def of_batch(batch: dict[str, Tensor], inputs: Tensor, keep: Tensor) -> Tensor:
        return predict(model, batch["source"], inputs, keep)

    return model, model.config.pad_id or 0, of_batch


def _labels(bundle: Bundle) -> tuple[nn.Module, int, Predict]:
    """The same of a classification's bundle."""
    from gnomon.tasks.classifier_folder import load_classifier
    from gnomon.tasks.label_rows import NO_LABEL, at_labels

    classifier = load_classifier(bundle.model)

    def of_batch(batch: dict[str, Tensor], inputs: Tensor, keep: Tensor) -> Tensor:
        logits = classifier.network(batch["ids"], batch["keep"], batch["segments"])
        return at_labels(logits, keep, classifier.kind)

    return classifier.network, NO_LABEL, of_batch


def _documents(bundle: Bundle) -> tuple[nn.Module, int, Predict]:
    """The same of a bundle of packed rows."""
    from gnomon.doctor.targets.documents import predictor
    from gnomon.tasks.document_task import predict_packed
    from gnomon.tasks.packing import NO_LABEL, PackedBatch

    model = predictor(bundle.model)

    def of_batch(batch: dict[str, Tensor], inputs: Tensor, keep: Tensor) -> Tensor:
        rows = PackedBatch(batch["inputs"], batch["target"], batch.get("documents"), [])
        return predict_packed(model, rows, keep)

    return model, NO_LABEL, of_batch


def _hugging_face(bundle: Bundle) -> nn.Module:
    import transformers

    config = transformers.AutoConfig.from_pretrained(bundle.model, trust_remote_code=False)
    name = (config.architectures or [""])[0]
    architecture = getattr(transformers, name, None)
    if architecture is None:
        raise DoctorError(
            "the model of a bundle must be one of this transformers' architectures",
            seen=name or "none named in config.json",
            mend="pass the module: gnomon.doctor.monitors.replay(bundle, module)",
        )
    module: nn.Module = architecture(config)
    return module


def _of_module(bundle: Bundle, module: nn.Module, loss: Callable[[Any], Tensor] | None) -> Finding:
    put_in(bundle, module)
    args, kwargs = inputs(bundle)
    return again(bundle, module, partial(run_again, module, args, kwargs, loss, precision(bundle)))


def put_in(bundle: Bundle, module: nn.Module) -> None:
    """The weights of the failed step, in their number format.

    Raises:
        DoctorError: the module has other parameters.
    """
    load_weights(module, bundle.model)
    if dtype := bundle.record.get("dtype"):
        module.to(getattr(torch, dtype))
        load_weights(module, bundle.model)  # in that format, as it was


def inputs(bundle: Bundle) -> tuple[list[Any], dict[str, Any]]:
    """The inputs of the failed forward pass, by place and by keyword."""
    places = {key: value for key, value in bundle.batch.items() if key.startswith("arg.")}
    args = [places[f"arg.{number}"] for number in range(len(places))]
    kwargs = {k.removeprefix("kw."): v for k, v in bundle.batch.items() if k.startswith("kw.")}
    return args, kwargs | dict(bundle.record.get("plain_inputs", {}))


def precision(bundle: Bundle) -> str | None:
    """The dtype in which the failed pass was autocast."""
    found = bundle.record.get("autocast")
    return None if found is None else str(found)


def again(bundle: Bundle, module: nn.Module, run: Callable[[], Tensor | None]) -> Finding:
    """What happens first where `run` makes the failed pass with the generators as they were."""
    before = partial(restore_generator_states, bundle.generators, _CPU)
    with untouched(module):
        module.train()
        autopsy = look_into(module, run, before_each=before)
    return finding_of(explain(autopsy, f"step {bundle.step} run again from its bundle"))


def run_again(
    module: nn.Module,
    args: Any,
    kwargs: Any,
    loss: Callable[[Any], Tensor] | None,
    autocast: str | None,
) -> Tensor | None:
    """One forward pass, and where there is a loss a backward pass."""
    with autocast_to(module, autocast):
        output = module(*args, **kwargs)
        found = loss(output) if loss is not None else getattr(output, "loss", None)
    if found is not None and found.requires_grad:
        found.backward()
    return found


def autocast_to(module: nn.Module, dtype: str | None) -> torch.autocast:
    """The context of a pass that was autocast to `dtype`, by name; None: it was not."""
    device = next(module.parameters()).device.type
    to = getattr(torch, dtype) if dtype else torch.float32
    return torch.autocast(device, dtype=to, enabled=dtype is not None)
