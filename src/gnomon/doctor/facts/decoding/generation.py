"""Generation as it is used, step by step with the cache, beside full forward passes.

What is compared are logits, not only tokens: an untrained model repeats one token whatever its
cache holds. They are read off the module that writes them (found by its output), so the loop around
it may be anybody's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.facts.decoding.logit_steps import begins_anew, by_row, by_step, chosen
from gnomon.doctor.facts.decoding.loops import Generate, loop
from gnomon.doctor.facts.loss.logits import Product, logit_product, logit_writers, noting
from gnomon.doctor.finding import NotApplicable, Skip
from gnomon.doctor.remembering import remembered
from gnomon.doctor.run import difference
from gnomon.doctor.squares import Side
from gnomon.probe import Record, observe

_LONGEST = 256  # positions of the long request
_MANY = 48  # tokens that are generated where a target begins with one


@dataclass(frozen=True, eq=False)
class Generated:
    """What one request gave.

    Attributes:
        call: what was asked.
        tokens: int64 `[B, n]`, the new ones.
        steps: the logits of each step, `[R, T, V]`, R the rows or beams, T the positions that were
            read; empty where no module could be seen to write them.
        record: what the probe saw; empty where it was not asked to look.
        by_row: the loop finishes a row before it begins the next.
    """

    call: Call
    tokens: Tensor
    steps: tuple[Tensor, ...]
    record: Record
    by_row: bool = False

    def logits(self, step: int, row: int) -> Tensor:
        """`[V]`: what the step's token of a row was chosen by, the prompt being without padding."""
        return self.steps[step][row, -1]

    def candidates(self, row: int, real: Tensor) -> list[Tensor]:
        """`[V]` each: what the first token of a padded prompt was chosen by, as far as is known.

        At the last real position (`real` is bool `[T]`), or at the very last where the loop put the
        texts into another form.
        """
        given = self.steps[0][row]
        last = int(real.nonzero()[-1])
        found = [given[last], given[-1]] if given.size(0) == len(real) else [given[-1]]
        return [each for each in found if int(each.argmax()) == int(self.tokens[row, 0])] or found


def prompts(case: Case, num_tokens: int, of: Call | None = None) -> Call:
    """Requests of one length without padding, so short that `num_tokens` more fit the batch.

    For an encoder-decoder the sources as they are, padding included, and the target's first token.

    Args:
        of: what they are taken from; `case.small` where nothing is given.

    Raises:
        Skip: the model is not one that generates, or does not read ids.
    """
    intent = case.must_not_look_ahead
    call = case.small if of is None else of
    if intent.family == "encoder":
        raise NotApplicable("an encoder generates nothing")
    if call.text(call.read).dim() != 2 or call.text(call.read).is_floating_point():
        raise NotApplicable("the model reads vectors: it writes no tokens")
    if call.read == "target":
        starts = torch.full_like(call.text("target")[:, :1], _start(case))
        return call.filled("target", list(starts))
    texts = real_ids(call)
    room = max(map(len, texts)) - num_tokens
    length = min(room, *map(len, texts))
    if length < 1:
        raise Skip(f"the batch's texts are too short to continue one by {num_tokens} tokens")
    texts = [text[:length].clone() for text in texts]
    if case.kind == "gnomon":
        for text in texts:  # gnomon's search begins all of them with one token
            text[0] = texts[0][0]
    return call.filled("source", texts)


def _start(case: Case) -> int:
    """The token that every target begins with."""
    if case.kind == "huggingface" and case.patient.generate is None:
        for owner in (case.module.generation_config, case.module.config):
            if isinstance(start := getattr(owner, "decoder_start_token_id", None), int):
                return start
    text, keep = case.small.text("target"), case.small.keep("target")
    return int(text[0, int(keep[0].int().argmax())])


def prompts_of(case: Case, num_tokens: int, side: Side) -> Call:
    """Requests of several lengths, padded on a side and masked as the model takes it.

    Raises:
        Skip: the texts are too short.
    """
    call = case.told(case.small)
    texts = real_ids(call)
    room = max(map(len, texts)) - num_tokens
    if room < 3:
        raise Skip(f"the batch's texts are too short to continue one by {num_tokens} tokens")
    # One prompt is as long as can be, the others one and more shorter.
    lengths = [max(1, min(len(text), room - row)) for row, text in enumerate(texts)]
    return call.filled(
        "source", [text[:length] for text, length in zip(texts, lengths, strict=True)], side
    )


def apart_from_single(
    case: Case, made: Generated, rows: Sequence[int] | None = None
) -> tuple[float, int, int]:
    """The largest difference between a row's answer in the batch and alone; the row and step.

    Args:
        rows: those to be tried alone; None: all.
    """
    worst, over = (0.0, 0, 0), ends(case)
    keep = made.call.keep(made.call.read)
    texts = real_ids(made.call)
    for row in range(made.call.num_rows()) if rows is None else rows:
        alone_call = made.call.rows([row])
        if made.call.read == "source":
            alone_call = alone_call.filled("source", [texts[row]])
        alone = generate(case, alone_call, made.tokens.size(1))
        for step in range(until_end(alone.tokens[0], over)):
            ours, theirs = made.tokens[row, step], alone.tokens[0, step]
            same = bool(ours == theirs)
            if made.steps and alone.steps and len(made.steps[step]) == made.call.num_rows():
                scores = alone.logits(step, 0)
                padded = step == 0 and not bool(keep[row].all()) and made.call.read == "source"
                ways = made.candidates(row, keep[row]) if padded else [made.logits(step, row)]
                apart = min(difference(way[None], scores[None]) for way in ways)
                # Other tokens of the same scores: a tie, unless one of them is clearly better.
                spread = float(scores.double().std()) or 1.0
                apart = max(apart, float((scores[ours] - scores[theirs]).abs()) / spread)
            else:
                apart = 0.0 if same else float("inf")
            if apart > worst[0]:
                worst = apart, row, step
            if not same:
                break
    return worst


@remembered
def pads_at_left(case: Case) -> bool:
    """Whether the loop of its user lets padding stand before tokens: prompts of several lengths are
    padded at the left, or are padded at the right and continued behind the padding.

    False where no loop was handed over, or it cannot be tried.
    """
    patient, pad_id = case.patient, case.small.streams["source"].pad_id
    if patient.generate is None or case.small.read != "source" or pad_id is None:
        return False
    found: list[bool] = []

    def look(_: nn.Module, args: Any, kwargs: Any) -> None:
        for each in (*args, *kwargs.values()):
            if isinstance(each, Tensor) and each.dim() == 2 and not each.is_floating_point():
                padded = each.eq(pad_id)
                found.append(bool((padded[:, :-1] & ~padded[:, 1:]).any()))
                return  # the text; what follows are masks and positions

    handle = case.module.register_forward_pre_hook(look, with_kwargs=True)
    try:
        call = prompts_of(case, num_new(case), "right")
        if any(bool((text == pad_id).any()) for text in real_ids(call)):
            return False  # it is a token of texts, too
        with torch.no_grad():
            patient.generate(case.module.eval(), call.as_batch(patient.batch), 2)
    except Exception:  # the loop is its user's, and other checks tell that it fails
        return False
    finally:
        handle.remove()
    return any(found)


def real_ids(call: Call) -> list[Tensor]:
    """The real ids of each row of the text that is read."""
    keep = call.keep(call.read)
    return [ids[real] for ids, real in zip(call.text(call.read), keep, strict=True)]


def num_new(case: Case) -> int:
    """How many tokens are generated: a few, within the length of the batch."""
    call = case.small
    longest = int(call.keep(call.read).sum(1).max())
    if call.read == "target":  # it begins with one token
        return max(2, min(14, longest - 1))
    return max(2, min(8, longest // 2))


def generate(
    case: Case, call: Call, num_tokens: int, num_beams: int = 1, *, observed: bool = False
) -> Generated:
    """Generate, and note the logits of each step.

    Raises:
        Skip: it is not known how this model generates.
    """
    run = loop(case, num_beams)
    found = Generated(call, torch.empty(0), (), Record())
    # Of modules that write the same logits the innermost is in every loop; the root may not be.
    for writer in _writers(case):
        shaken = _Shaken(ends(case)) if num_beams > 1 else None
        found = _noted(case, call, num_tokens, num_beams, run, writer, shaken, observed)
        if found.steps:
            break
    return found


def _writers(case: Case) -> Iterator[str | Product]:
    yield from logit_writers(case)
    if (product := logit_product(case)) is not None:
        yield product


class _Shaken:
    """Puts noise on logits after they were noted, so that hypotheses change places in each step.

    A search with a sure model follows one beam all along, and a cache that is never reordered
    would not show. Ends of texts are put off.
    """

    def __init__(self, over: frozenset[int]) -> None:
        self.over = sorted(over)
        self.generator = torch.Generator().manual_seed(0)

    def shake(self, logits: Tensor) -> None:
        """In place."""
        noise = torch.randn(logits.shape, generator=self.generator).to(logits)
        logits += noise * 2 * logits.float().std().to(logits)
        inside = [each for each in self.over if 0 <= each < logits.size(-1)]
        logits[..., inside] -= 1e4


def _noted(
    case: Case,
    call: Call,
    num_tokens: int,
    num_beams: int,
    run: Generate,
    writer: str | Product,
    shaken: _Shaken | None,
    observed: bool,
) -> Generated:
    module = case.module.eval()
    rows = call.num_rows()
    outputs: list[Tensor] = []

    def note(logits: Tensor) -> None:
        outputs.append(logits.detach().clone())
        if shaken is not None:
            shaken.shake(logits)

    looking = observe(module) if observed else contextlib.nullcontext(Record())
    with torch.no_grad(), looking as record, noting(case, writer, note):
        torch.manual_seed(0)
        tokens = run(call, num_tokens).detach().to(call.text(call.read).device)
    if tokens.dim() != 2 or tokens.size(0) != rows:
        raise Skip(f"generate gives {tuple(tokens.shape)}, not the tokens of {rows} rows")
    if tokens.size(1) > num_tokens:  # the prompt comes first
        tokens = tokens[:, call.text(call.read).size(1) :]
    tokens = tokens[:, :num_tokens]
    steps = by_step(outputs, tokens.size(1), rows, num_beams)
    other = by_row(outputs, tokens) if num_beams == 1 else ()
    row_by_row = bool(other) and (chosen(other, tokens), begins_anew(outputs, tokens.size(1))) > (
        chosen(steps, tokens), False
    )  # fmt: skip
    return Generated(call, tokens, other if row_by_row else steps, record, row_by_row)


def first(case: Case) -> Generated:
    """Greedy continuations of `prompts`, made once for all checks."""

    def compute() -> Generated:
        num_tokens = num_new(case)
        return generate(case, prompts(case, num_tokens), num_tokens, observed=True)

    return case.once("generated", compute)


@remembered
def long_request(case: Case) -> tuple[Call, int]:
    """The longest texts of the batch, and how many tokens to generate of them.

    A cache that is cut off shows in requests that are as long as that. At most three rows, whose
    texts are long enough for the prompt.

    Raises:
        Skip: `first` is as long already, or the model does not take them.
    """
    call = case.call.without_any("labels")
    counts = call.keep(call.read).sum(1).clamp(max=_LONGEST)
    longest, short = int(counts.max()), num_new(case)
    if call.read == "target":  # it begins with one token
        num_tokens = reached = min(_MANY, longest - 1)
        before = short
    else:
        num_tokens, reached = short, longest
        before = int(case.small.keep(call.read).sum(1).max())
    if reached <= before:
        raise Skip("no text of the batch is longer")
    rows = (counts >= longest - num_tokens).nonzero().flatten().tolist()
    call = call.rows(sorted(rows, key=lambda row: -int(counts[row]))[:3])
    call = call.filled(call.read, [text[:longest] for text in real_ids(call)])
    try:
        case.run(call)
    except Exception as error:  # a model that insists on its batch's size
        raise Skip(f"long texts alone raise {type(error).__name__}") from None
    return call, num_tokens


def continued(case: Case, call: Call, tokens: Tensor, of: Call | None = None) -> Tensor:
    """Logits `[B, n, V]` for each of the tokens `[B, n]` by one full forward pass, without cache.

    Args:
        call: from `prompts`.
        of: what it was taken from.
    """
    return case.run(with_tokens(case, call, tokens, of)).tokens[:, -tokens.size(1) :]


def with_tokens(case: Case, call: Call, tokens: Tensor, of: Call | None = None) -> Call:
    """Prompts with all but the last of the tokens that were generated, see `continued`."""
    # The prompts are without padding, though their first token may have the padding's id.
    texts = list(torch.cat((call.text(call.read), tokens[:, :-1]), dim=1))
    full = (case.small if of is None else of).filled(call.read, texts)
    if call.read == "target":
        sources = {e.key: call.values[e.key] for e in call.entries if e.stream == "source"}
        full = replace(full, values={**full.values, **sources})
    return full


def ends(case: Case) -> frozenset[int]:
    """Ids after which a text is over, and padding."""
    patient = case.patient
    found: set[Any] = {stream.pad_id for stream in case.small.streams.values()}
    for owner in (patient.tokenizer, patient.config, getattr(case.module, "config", None),
                  getattr(case.module, "generation_config", None)):  # fmt: skip
        for name in ("eos_token_id", "eos_id"):
            value = getattr(owner, name, None)
            found |= set(value) if isinstance(value, list | tuple) else {value}
    return frozenset(each for each in found if isinstance(each, int))


def until_end(tokens: Tensor, over: frozenset[int]) -> int:
    """How many of a row's tokens `[n]` count: up to its end, that included."""
    for place, token in enumerate(tokens.tolist()):
        if token in over:
            return place + 1
    return len(tokens)
