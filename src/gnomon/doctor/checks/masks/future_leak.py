"""future-leak: no position of a causal model sees a later one."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gnomon.doctor.call import Call, StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.hidden_how import later, set_to_a_number, taken_after_softmax
from gnomon.doctor.facts.attention.sights import SEEN, Sight, places
from gnomon.doctor.facts.beside.trace import parted
from gnomon.doctor.finding import Outcome, Skip, failure, passed
from gnomon.doctor.run import Run, difference, run

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.head = nn.Linear(16, 50)

        def forward(self, ids):
            return self.head(self.layer(self.embed(ids)))  # nothing hides the future

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}, "causal": True}
"""
_MENDED = _FAULTY.replace(
    "return self.head(self.layer(self.embed(ids)))  # nothing hides the future",
    """mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
            return self.head(self.layer(self.embed(ids), src_mask=mask, is_causal=True))""",
)


@check(
    code="future-leak",
    title="No position sees a later one",
    fault="Positions see later ones",
    cost="probe",
    cause="The look-ahead mask is missing somewhere, or something else mixes positions.",
    mend="Hide later keys in every self-attention of the decoder: a lower-triangular boolean mask, "
    "or is_causal=True; nothing else in the layer may mix positions.",
    reference="Vaswani et al. 2017, section 3.2.3",
    symptoms=("too-good", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def future_leak(case: Case) -> Outcome:
    """A model that sees the token it has to predict learns to copy it.

    Its training loss falls to almost nothing and its free-running output is noise. Other tokens are
    put in from each of several positions on; what stands before must not move, in evaluation and in
    training mode. Perturbing also shows a leak through a comparison, which has no gradient; the
    gradient shows one that is lost in rounding.
    """
    reason = case.must_not_look_ahead.reason
    worst, at = _perturbed(case, case.small)
    if worst > case.tolerance:
        return _leak(case, worst, at, reason)
    packed = _packed(case)
    if packed > case.tolerance:
        return failure(
            f"in rows of several documents, other tokens at later positions move earlier ones by "
            f"{packed:.2g} of their spread, in rows of one by {worst:.1e}; it is causal: {reason}",
            cause="What takes the documents of a row apart forgets the look-ahead mask.",
            mend="causal & (documents[:, :, None] == documents[:, None, :])",
            moved=packed,
        )
    trained = _in_training(case)
    if trained > case.tolerance:
        norms = [name for name, each in case.module.named_modules() if _mixes_in_training(each)]
        return failure(
            f"in training mode, other tokens at later positions move earlier ones by {trained:.2g} "
            f"of their spread, in evaluation by {worst:.1e}; it is causal: {reason}",
            where=norms,
            cause="BatchNorm takes its statistics over all positions in training."
            if norms
            else "Something mixes positions in training mode alone.",
            mend="Normalise each position by itself: LayerNorm or RMSNorm." if norms else "",
            moved=trained,
        )
    share = _gradient(case)
    if share is not None and share > 1e-7:
        return failure(
            f"the gradient of earlier outputs on later tokens is {share:.1e} of that on earlier "
            f"ones, not 0; it is causal: {reason}",
            where=places(_own(case), "future"),
            cause="The look-ahead mask lowers later scores, but not by enough to hide them.",
            mend="Use a boolean mask, or -inf (finfo.min) where it is added.",
            gradient=share,
        )
    return passed(
        f"other tokens from position {at} on move what stands before by {worst:.1e} of its spread "
        f"({reason})",
        moved=worst,
        gradient=share,
    )


def _late(call: Call, cut: int) -> Tensor:
    late = torch.zeros(call.text(call.read).shape[:2], dtype=torch.bool)
    late[:, cut:] = True
    return late


def _packed(case: Case) -> float:
    """How far it moves where documents meet in a row; 0 where none do."""
    try:
        return _perturbed(case, case.packed)[0]
    except Skip:
        return 0.0


def _perturbed(case: Case, call: Call) -> tuple[float, int]:
    before = case.run(call).tokens
    length, keep = call.length(call.read), call.keep(call.read).cpu()
    worst, at = 0.0, 1
    for cut in sorted({1, length // 3, length // 2, length - 1} - {0}):
        late = _late(call, cut)
        moved = difference(case.run(call.perturbed(call.read, late)).tokens, before, ~late & keep)
        if moved > worst:
            worst, at = moved, cut
    return worst, at


def _in_training(case: Case) -> float:
    """How far it moves in training mode, under the same dropout."""
    call = case.small
    late = _late(call, call.length(call.read) // 2)
    early = ~late & call.keep(call.read).cpu()
    other = call.perturbed(call.read, late)

    def trained(each: object) -> Run:
        case.module.train()
        torch.manual_seed(0)
        with torch.no_grad():
            return run(case.module, call if each is None else other)

    moved = difference(trained(other).tokens, (before := trained(None)).tokens, early)
    if moved <= case.tolerance:
        return moved
    # Draws that no seed fixes move everything: then training mode tells nothing.
    return 0.0 if difference(trained(None).tokens, before.tokens) > case.tolerance else moved


def _gradient(case: Case) -> float | None:
    """The largest gradient of early outputs on late vectors, as a share of that on early ones.

    None where no look-up of the text in a table was seen.
    """
    call = case.small
    if any(_is_same(call, name) for name in set(call.streams) - {call.read}):
        # Told from one another by what they hold, the look-up of the one would be taken for that
        # of the other.
        call = call.perturbed(call.read, call.keep(call.read))
    cut, text = call.length(call.read) // 2, call.text(call.read)
    case.module.eval()
    if text.is_floating_point():
        vectors = text.detach().clone().requires_grad_()
        call = call.with_text(call.read, vectors)
    with torch.enable_grad(), _Cut(text) as lookup:
        tokens = run(case.module, call).tokens[:, :cut]
    start = vectors if text.is_floating_point() else lookup.vectors
    if start is None or not tokens.requires_grad:
        return None
    weights = torch.randn(tokens.shape, generator=torch.Generator().manual_seed(0))
    # What stands at padding on the left is nobody's business.
    weights = weights * call.keep(call.read)[:, :cut, None].to(weights)
    (found,) = torch.autograd.grad((tokens * weights.to(tokens)).sum(), start, allow_unused=True)
    if found is None:
        return None
    size = found.float().abs().flatten(2).amax(2)
    own = float(size[:, :cut].max())
    return float(size[:, cut:].max()) / own if own > 0 else None


def _is_same(call: Call, name: StreamName) -> bool:
    """Whether another text holds the very ids of the one that is read."""
    text, other = call.text(call.read), call.text(name)
    return text.shape == other.shape and bool(torch.equal(text, other))


class _Cut(TorchFunctionMode):
    """Makes what a text is embedded as a leaf, so that gradients on it can be taken."""

    def __init__(self, text: Tensor) -> None:
        super().__init__()
        self.text = text
        self.vectors: Tensor | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        is_lookup = func is torch.nn.functional.embedding and self.vectors is None
        if is_lookup and torch.equal(args[0], self.text):
            self.vectors = output.detach().requires_grad_()
            return self.vectors.clone()  # models may change it in place
        return output


def _own(case: Case) -> list[Sight]:
    read = case.small.read
    return [each for each in case.sights_if_any if each.is_self and each.query == read]


def _mixes_in_training(module: nn.Module) -> bool:
    return "BatchNorm" in type(module).__name__


def _leak(case: Case, worst: float, at: int, reason: str) -> Outcome:
    own = _own(case)
    open_ones = [each for each in own if float(each.future.max()) > SEEN]
    where, mend = places(open_ones, "future"), ""
    near = [each for each in open_ones if _by_one(each)]
    weak = set_to_a_number(open_ones, later, "later keys")
    late = taken_after_softmax(own, later, "later keys")
    if open_ones and len(near) == len(open_ones):
        cause = "The look-ahead mask is shifted by one: each position sees the next."
    elif weak is not None:
        cause, mend = weak.cause, weak.mend
    elif open_ones and len(open_ones) == len(own) and all(bool(x.future.min() > SEEN) for x in own):
        cause = "No self-attention hides the future."
    elif open_ones:
        heads = sum(int((each.future > SEEN).sum()) for each in open_ones)
        total = sum(each.future.numel() for each in own)
        cause = f"{heads} of {total} heads in {len(open_ones)} of {len(own)} layers see the future."
    elif late is not None:
        where, cause, mend = list(late.where), late.cause, late.mend
    else:
        call, late_positions = case.small, _late(case.small, at)
        other = case.observed(call.perturbed(call.read, late_positions))
        early = ~late_positions & call.keep(call.read).cpu()
        found = parted(case.module, case.seen, other, early, case.tolerance)
        where = [found[0]] if found else []
        cause, mend = _unseen(own, where)
    return failure(
        f"other tokens from position {at} on move what stands before by {worst:.2g} of its spread "
        f"(rounding: {case.tolerance:.0e}); it is causal: {reason}",
        where=where,
        cause=cause,
        mend=mend,
        moved=worst,
    )


def _unseen(own: Sequence[Sight], where: Sequence[str]) -> tuple[str, str]:
    """Cause and mend where no attention call that was seen shows the leak."""
    first = f" The first module that moves is {where[0]}." if where else ""
    if not own:
        return f"No self-attention shows its weights: what mixes positions is not known.{first}", ""
    return (
        f"Something beside attention mixes positions: all {len(own)} calls that were seen hide the "
        f"future.{first}",
        "Nothing in a causal layer may read later positions: neither a norm, a pooling or a "
        "convolution over positions, nor a reshape that mixes them.",
    )


def _by_one(sight: Sight) -> bool:
    """Whether all that it sees of the future is the next token."""
    T, S = sight.weights.shape[-2:]
    further = torch.ones(T, S, dtype=torch.bool).triu(2).to(sight.weights.device)
    return bool((sight.weights.nan_to_num(0.0)[..., further] <= SEEN).all())
