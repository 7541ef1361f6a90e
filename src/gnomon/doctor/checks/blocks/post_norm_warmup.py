"""post-norm-warmup: a post-norm model is trained with a warm-up."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import NotApplicable, Outcome, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        module = nn.TransformerEncoder(layer, 4)
        return {
            "module": module, "batch": {"src": torch.randn(2, 6, 32)},
            "optimizer": torch.optim.Adam(module.parameters(), lr=1e-3),
            "schedule": lambda step: 1e-3, "planned_steps": 10_000,
        }
"""
_MENDED = _FAULTY.replace("lambda step: 1e-3", "lambda step: 1e-3 * min(1.0, (step + 1) / 400)")
FEW = 10
FINE_TUNING = 6e-5  # rates up to here train pretrained post-norm models without warm-up


@check(
    code="post-norm-warmup",
    title="A post-norm model warms up",
    fault="A post-norm model trains without enough warm-up",
    cost="probe",
    cause="The norm stands after the residual sum, where the gradients of the last layers are "
    "large at first, and the schedule starts at its peak.",
    mend="Raise the rate over some thousand steps, or put the norms before the sublayers (pre-norm "
    "trains without).",
    reference="Xiong et al. 2020, On Layer Normalization in the Transformer Architecture; "
    "pytorch #55270",
    symptoms=("stuck", "nan"),
    example=_FAULTY,
    mended=_MENDED,
)
def post_norm_warmup(case: Case) -> Outcome:
    """Post-norm models diverge or hang when they start at the full rate, the deeper the sooner.

    Where a layer's output is a norm's, it is post-norm.
    """
    rates = case.learning_rates
    if rates.start > 0:
        raise NotApplicable(f"the schedule stands at step {rates.start}: the first steps are over")
    blocks = case.blocks
    post = [block.name for block in blocks if block.ends_with_norm]
    if 2 * len(post) <= len(blocks):
        return passed(f"{len(blocks) - len(post)} of {len(blocks)} layers are pre-norm")
    evidence = (
        f"{len(post)} post-norm layers, and the rate is at half of its peak {rates.peak:.2g} after "
        f"{rates.warmup} steps"
    )
    if rates.warmup >= FEW or rates.peak <= FINE_TUNING:
        return passed(evidence, layers=len(post), warmup=rates.warmup)
    return warning(evidence, where=post, layers=len(post), warmup=rates.warmup, peak=rates.peak)
