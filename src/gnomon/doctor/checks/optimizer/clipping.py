"""clipping: the gradient is clipped, now and then."""

from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.stepping import norm_of
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)

        def loss(module, batch):
            return 30 * (module(**batch) - 1).square().mean()

        def step(batches):
            optimizer.zero_grad()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)  # before there is a gradient
            for batch in batches:
                (loss(module, batch) / len(batches)).backward()
            optimizer.step()

        return {
            "module": module, "optimizer": optimizer, "step": step, "clip_norm": 1.0,
            "loss": loss, "batch": {"src": torch.randn(4, 6, 16)},
        }
"""
_CLIP = "            nn.utils.clip_grad_norm_(module.parameters(), 1.0)"
_MENDED = _FAULTY.replace(f"{_CLIP}  # before there is a gradient\n", "").replace(
    "            optimizer.step()", f"{_CLIP}\n            optimizer.step()"
)
_FAR = 300  # times the clip norm


@check(
    code="clipping",
    title="Gradient clipping acts on outliers",
    fault="Gradient clipping does not act as it should",
    cost="step",
    cause="Gradients are clipped before they are complete (before backward, before the loss scale "
    "is taken out), or not all of them.",
    mend="Clip once, after the last backward pass (and `scaler.unscale_`), right before the "
    "optimizer's step, over all parameters.",
    reference="Pascanu et al. 2013; PyTorch documentation, automatic mixed precision: clipping",
    symptoms=("nan", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def clipping(case: Case) -> Outcome:
    """Clipping is for the rare large gradient.

    One that never acts is no protection, one that acts with full force at every step hides the
    gradient's size (and with it every sign of trouble). The gradient that reaches the optimizer in
    one real step is measured, and the unclipped one beside it.
    """
    clip = case.patient.clip_norm
    if not clip:
        raise Skip("no clip_norm was named")
    raw: float | None = None
    if case.patient.loss is not None or case.kind == "huggingface":
        case.loss_gives_gradients  # noqa: B018 - skips where no training loss is known
        raw = norm_of(case.gradients)
    try:
        real: float | None = case.stepped["two"].norm
    except Skip:
        real = None
    if real is not None and real > 1.01 * clip:
        return failure(
            f"a gradient of norm {real:.3g} reached the optimizer, though it is to be clipped at "
            f"{clip:g}",
            norm=real,
            clip=clip,
        )
    if raw is None or raw == 0:
        if real is None:
            raise Skip("neither a loss nor a step was handed over that would give a gradient")
        return passed(f"the gradient that reached the optimizer has norm {real:.3g}", norm=real)
    numbers: dict[str, Any] = {"norm": raw, "clip": clip}
    evidence = f"the gradient's norm is {raw:.3g}, clipped at {clip:g}"
    if raw > _FAR * clip:
        return warning(
            f"{evidence}: every step is cut to {clip / raw:.2g} of its size",
            cause="The clip norm is far below what gradients of this model and loss are: the loss "
            "is summed instead of averaged, or the norm was set in other units.",
            mend="Average the loss over tokens; clip at about the usual gradient norm (1.0).",
            **numbers,
        )
    if raw * _FAR < clip:
        return warning(
            f"{evidence}: clipping never acts",
            cause="The clip norm is far above what gradients of this model and loss are.",
            mend="Clip at about the usual gradient norm (1.0), or leave clipping out.",
            **numbers,
        )
    return passed(evidence, **numbers)
