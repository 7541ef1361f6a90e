"""Beam search whose outputs must contain given token sequences.

The idea is dynamic beam allocation (Post and Vilar, 2018): hypotheses that have met equally many
constraint tokens form a bank and compete only among themselves, so that putting in a required
phrase, which costs probability, does not cost a hypothesis its place. Here places go round the
banks in turn, the fullest bank first, which divides them evenly and fills those that a bank
cannot use. A second rule makes it certain: a step after which the phrases still missing would no
longer fit the length limit is never taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.decoding.topk import best_extensions, ordered_keys

Phrases = Sequence[Sequence[int]]


class RequiredPhrases:
    """The required phrases of a batch of sentences, and how far each hypothesis is with them.

    Letters: P phrases of a sentence, U different tokens in them, both the most in the batch. A
    phrase counts as soon as its tokens stand side by side in the output, wherever that is.

    Args:
        phrases: for each sentence its required token sequences.
        filler: a token that is never generated, where a sentence has fewer than U.
        device: of the search.
    """

    def __init__(self, phrases: Sequence[Phrases], filler: int, device: torch.device) -> None:
        wanted = [essential(each) for each in phrases]
        tokens = [sorted({token for phrase in each for token in phrase}) for each in wanted]
        B, P = len(wanted), max(map(len, wanted), default=0)
        U = max(map(len, tokens), default=0)
        longest = max((len(phrase) for each in wanted for phrase in each), default=0)
        self.tokens = torch.full((B, U), filler)
        self.lengths = torch.zeros(B, P, dtype=torch.long)
        # [B, P, longest + 1, U + 1]: progress by phrase, progress and next token; the last token
        # stands for all that are in no phrase.
        self.following = torch.zeros(B, P, longest + 1, U + 1, dtype=torch.long)
        for b, (each, own) in enumerate(zip(wanted, tokens, strict=True)):
            self.tokens[b, : len(own)] = torch.tensor(own, dtype=torch.long)
            for p, phrase in enumerate(each):
                self.lengths[b, p] = len(phrase)
                for progress in range(len(phrase)):
                    for u, token in enumerate(own):
                        self.following[b, p, progress, u] = _progress(phrase, progress, token)
        self.tokens, self.lengths = self.tokens.to(device), self.lengths.to(device)
        self.following = self.following.to(device)
        self.progress = torch.zeros(B, 1, P, dtype=torch.long, device=device)  # [B, k, P]
        self.met = (self.lengths == 0).unsqueeze(1)  # [B, k, P]

    def needed(self) -> Tensor:
        """How many more tokens each hypothesis must have room for: [B, k]."""
        return self._needed(self.progress, self.met, self.lengths.unsqueeze(1))

    def own_scores(self, log_probs: Tensor) -> Tensor:
        """The log-probabilities [B, k, U] of the phrases' tokens, out of [B, k, V]."""
        return log_probs.gather(-1, self.tokens.unsqueeze(1).expand(-1, log_probs.size(1), -1))

    def extensions(
        self,
        log_probs: Tensor,
        next_log_probs: Tensor,
        advancing: Tensor,
        count: int,
        *,
        room: Tensor,
        eos_id: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The extensions to go on with, allocated over banks; as `best_extensions`.

        Args:
            log_probs: [B, k] of the hypotheses so far.
            next_log_probs: [B, k, V]; overwritten.
            advancing: [B, k, U], `own_scores` before the rules that give way to required phrases.
            count: places per sentence.
            room: [B], tokens that fit behind the next one.
            eos_id: ends an output, so it comes when nothing is missing.
        """
        B, k, V = next_log_probs.shape
        present = self.needed()
        of_tokens = self._after_each_token()  # [B, k, U]
        values = torch.where(
            of_tokens < present.unsqueeze(-1), advancing, self.own_scores(next_log_probs)
        )
        room = (room - 1).clamp(min=0)[:, None, None]  # the end takes one
        values = values.masked_fill(of_tokens > room, -torch.inf)

        others = next_log_probs
        others[..., eos_id].masked_fill_(present > 0, -torch.inf)
        places = self.tokens.unsqueeze(1).expand(-1, k, -1)
        others.scatter_(-1, places, -torch.inf)
        reset = self._needed(torch.zeros_like(self.progress), self.met, self.lengths.unsqueeze(1))
        others.masked_fill_((reset > room[..., 0]).unsqueeze(-1), -torch.inf)

        rows = best_extensions(log_probs.view(-1, 1), others.view(B * k, 1, V), count)
        parent = torch.arange(k, device=others.device).view(1, k, 1)
        candidates = torch.cat((rows[0].view(B, -1), (values + log_probs[..., None]).flatten(1)), 1)
        parents = torch.cat(
            [parent.expand(B, k, width).flatten(1) for width in (count, values.size(-1))], 1
        )
        tokens = torch.cat((rows[2].view(B, -1), places.flatten(1)), 1)
        needed = torch.cat(
            (reset.unsqueeze(-1).expand(-1, -1, count).flatten(1), of_tokens.flatten(1)), 1
        )
        chosen = _in_turns(candidates, needed, count)
        best = candidates.gather(1, chosen)
        broken = ~(candidates <= 0).all(1)  # `split_finished` looks at the first place
        best[:, 0].masked_fill_(broken, torch.inf)
        return best, parents.gather(1, chosen), tokens.gather(1, chosen)

    def advance(self, parents: Tensor, tokens: Tensor) -> None:
        """Hypothesis j [B, k] becomes its parent and one token."""
        same = tokens.unsqueeze(-1) == self.tokens.unsqueeze(1)  # [B, k, U]
        which = torch.where(same.any(-1), same.long().argmax(-1), self.tokens.size(1))
        progress = _of_parents(self.progress, parents)
        b, p = self._places(progress)
        self.progress = self.following[b, p, progress, which.unsqueeze(-1)]
        done = self.progress == self.lengths.unsqueeze(1)
        self.met = _of_parents(self.met, parents) | done
        self.progress = self.progress.masked_fill(self.met, 0)

    def keep(self, sentences: Tensor) -> None:
        """Keep these sentences only."""
        for name in ("tokens", "lengths", "following", "progress", "met"):
            setattr(self, name, getattr(self, name)[sentences])

    def _after_each_token(self) -> Tensor:
        """`needed` after each of the U tokens: [B, k, U]."""
        b, p = self._places(self.progress)
        progress = self.following[b, p, self.progress][..., :-1].transpose(2, 3)  # [B, k, U, P]
        lengths = self.lengths[:, None, None]
        met = self.met.unsqueeze(2) | (progress == lengths)
        return self._needed(progress, met, lengths)

    @staticmethod
    def _needed(progress: Tensor, met: Tensor, lengths: Tensor) -> Tensor:
        """Tokens of missing phrases, less what the one furthest on has already: [...] of [..., P].

        Phrases are taken to come one after the other; that they might overlap is not counted on.
        """
        if progress.size(-1) == 0:
            return progress.sum(-1)
        missing = (lengths * ~met).sum(-1)
        return missing - (progress * ~met).amax(-1)

    def _places(self, progress: Tensor) -> tuple[Tensor, Tensor]:
        B, _, P = progress.shape
        b = torch.arange(B, device=progress.device).view(B, 1, 1)
        return b, torch.arange(P, device=progress.device).view(1, 1, P)


def essential(phrases: Phrases) -> list[tuple[int, ...]]:
    """The phrases without those that another one contains, each once."""
    distinct = list(dict.fromkeys(tuple(phrase) for phrase in phrases if phrase))
    return [
        phrase
        for phrase in distinct
        if not any(phrase != other and contains(other, phrase) for other in distinct)
    ]


def contains(tokens: Sequence[int], phrase: Sequence[int]) -> bool:
    """Whether `phrase` stands in `tokens`, side by side."""
    width = len(phrase)
    return any(
        tuple(tokens[i : i + width]) == tuple(phrase) for i in range(len(tokens) - width + 1)
    )


def _progress(phrase: Sequence[int], progress: int, token: int) -> int:
    """The longest beginning of `phrase` that ends the text after `token` (Knuth, Morris, Pratt)."""
    seen = (*phrase[:progress], token)
    fits = [n for n in range(1, len(seen) + 1) if tuple(phrase[:n]) == seen[len(seen) - n :]]
    return max(fits, default=0)


def _in_turns(values: Tensor, needed: Tensor, count: int) -> Tensor:
    """Places of the chosen candidates [B, count]: banks take turns, each offering its best left.

    Args:
        values: [B, n] log-probabilities; -inf is no candidate.
        needed: [B, n] tokens still missing; equal ones make a bank.
    """
    order = ordered_keys(values).argsort(dim=1, descending=True)
    values, needed = values.gather(1, order), needed.gather(1, order)
    by_bank = needed.sort(dim=1, stable=True)  # fewest missing first
    place = torch.arange(values.size(1), device=values.device).expand_as(needed)
    fresh = F.pad(by_bank.values.diff(dim=1) != 0, (1, 0), value=True)
    rank = place - torch.where(fresh, place, 0).cummax(1).values
    rank = rank.masked_fill(values.gather(1, by_bank.indices) == -torch.inf, values.size(1))
    turns = rank.sort(dim=1, stable=True).indices[:, :count]
    chosen = by_bank.indices.gather(1, turns)
    return order.gather(1, chosen.sort(dim=1).values)  # best first again, whichever bank it is of


def _of_parents(state: Tensor, parents: Tensor) -> Tensor:
    """[B, k, P] of [B, k', P]."""
    return state.gather(1, parents.unsqueeze(-1).expand(-1, -1, state.size(-1)))
