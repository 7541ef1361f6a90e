"""left-padded-generation: prompts padded at the left are continued as without padding."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.decoding.generation import apart_from_single, generate, num_new, prompts_of
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed, warning

_MENDED = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.position = nn.Embedding(50, 16), nn.Embedding(32, 16)
            self.qkv, self.head = nn.Linear(16, 48), nn.Linear(16, 50)

        def forward(self, ids, real):
            T = ids.size(1)
            places = (real.cumsum(1) - 1).clamp(min=0)
            keep = torch.ones(T, T, dtype=torch.bool).tril() & real[:, None, None]
            x = self.embed(ids) + self.position(places)
            q, k, v = self.qkv(x)[:, None].chunk(3, dim=-1)
            return self.head(x + F.scaled_dot_product_attention(q, k, v, keep)[:, 0])

    def generate(module, batch, num_tokens):
        ids, real = batch["ids"], batch["real"]
        for _ in range(num_tokens):
            token = module(ids, real)[:, -1:].argmax(-1)
            ids = torch.cat((ids, token), 1)
            real = torch.cat((real, torch.ones_like(token, dtype=torch.bool)), 1)
        return ids

    def patient():
        torch.manual_seed(0)
        real = torch.arange(12) >= torch.tensor([[0], [2], [5]])
        batch = {"ids": torch.randint(1, 50, (3, 12)) * real, "real": real}
        return {"module": Model(), "batch": batch, "causal": True, "generate": generate}
"""
_FAULTY = _MENDED.replace("(real.cumsum(1) - 1).clamp(min=0)", "torch.arange(T)[None]")


@check(
    code="left-padded-generation",
    title="Prompts padded at the left are continued as without",
    fault="Prompts padded at the left are continued differently",
    cost="probe",
    cause="The padding's positions are counted, or its keys are seen, in the prompt or in the "
    "steps after it.",
    mend="Positions from the mask, (mask.cumsum(1) - 1).clamp(min=0), and the mask grown by one in "
    "each step.",
    reference="transformers #22707, #18478, #48161; unsloth #3699; alpaca-lora #315",
    symptoms=("padding", "gibberish", "deployed"),
    example=_FAULTY,
    mended=_MENDED,
)
def left_padded_generation(case: Case) -> Outcome:
    """Prompts of several lengths in one batch are padded at the left, so that new tokens follow.

    A short prompt is then continued otherwise than alone, if its padding is seen or counted, in the
    prompt or in the steps after it. Prompts are continued in one batch and each alone.
    """
    case.must_not_look_ahead  # noqa: B018 - skips what generates nothing
    small, patient = case.small, case.patient
    if small.read == "target":
        raise NotApplicable("an encoder-decoder's target begins with one token in each row")
    if small.num_rows() < 2:
        raise Skip("the batch has one row, and the model does not take more")
    side = patient.padding_side or getattr(patient.tokenizer, "padding_side", None)
    keep = case.call.keep("source")
    if side is None and not bool(keep[:, 0].all()):
        side = "left"
    if side == "right" and patient.generate is not None:
        raise NotApplicable("its prompts are padded at the right in use: see batch-differs")
    if not case.told(small).streams["source"].hides_padding:
        raise Skip("nothing tells the model where padding is: no mask among the inputs, no pad id")
    sure = side == "left" or patient.generate is None
    made = generate(case, prompts_of(case, num_new(case), "left"), num_new(case))
    moved, row, step = apart_from_single(case, made, [0, made.call.num_rows() - 1])
    evidence = (
        f"prompts padded at the left are continued by scores up to {moved:.2g} of their spread "
        f"from those alone (rounding: {case.tolerance:.0e})"
    )
    if moved <= case.tolerance:
        return passed(evidence, moved=moved)
    cause = "Already the prompt is read otherwise." if step == 0 else ""
    if step > 0:
        cause = "The prompt is read right, the steps after it are not: their positions or mask."
    tell = failure if sure else warning
    return tell(f"{evidence}, request {row} at step {step}", cause=cause, moved=moved, step=step)
