"""Tells which softmax is part of an attention, and makes the calls of the record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from gnomon.probe.attention import AttentionCall, Path
from gnomon.probe.calls import Call
from gnomon.probe.follow import is_cross
from gnomon.probe.kept import Keeper, Kept
from gnomon.probe.products import Product
from gnomon.probe.record import Record, SoftmaxCall
from gnomon.probe.softmax import Scores, SoftmaxEvidence, Weights
from gnomon.probe.trails import Trail, Trails


class Recogniser:
    """Adds to `record.attention` and `record.softmaxes`.

    A softmax over a product of two activations is attention at once. One over anything else becomes
    attention when its result is multiplied with values; until then it is a plain softmax.
    """

    def __init__(
        self, record: Record, trails: Trails, keeper: Keeper, *, keep_graph: bool = False
    ) -> None:
        self._record = record
        self._trails = trails
        self._keeper = keeper
        self._keep_graph = keep_graph
        self.path: Path = "softmax"
        # of the nn.MultiheadAttention that runs: [B, H] and the dtype of the mask it was given
        self.heads: tuple[int, int] | None = None
        self.mask_dtype: Any = None

    def softmax(
        self, call: Call, result: Tensor, owner: str, training: bool, *, log: bool
    ) -> Trail | None:
        """A call of softmax or log-softmax; the result's trail."""
        given = call.args[0]
        dim = call.argument(1, "dim")
        if dim is None:  # PyTorch's own guess, which it warns of
            dim = 0 if given.dim() in (0, 1, 3) else 1
        trail = self._trails[given]
        return self._weights(
            self._keeper.keep(given), given, result, int(dim), trail, owner, training, log=log
        )

    def exponential(self, given: Tensor, result: Tensor) -> Trail | None:
        """`exp` of scores begins a softmax by hand, of log-weights it ends one."""
        trail = self._trails[given]
        if trail.part == "log" and trail.weights is not None:
            evidence = trail.weights.evidence
            evidence.result = self._keeper.keep(result)
            call = evidence.call
            if isinstance(call, SoftmaxCall) and not self._is_doubtful(evidence.scores_trail):
                self._promote(evidence, call, result)
            return Trail(origins=trail.origins, weights=trail.weights)
        if trail.scores is not None and trail.part is None:
            return replace(trail, part="exp", exponent=self._keeper.keep(given))
        return None

    def total(self, call: Call, given: Tensor) -> Trail | None:
        """The sum of exponentials."""
        trail = self._trails[given]
        if trail.part != "exp":
            return None
        dim = call.argument(1, "dim")
        if isinstance(dim, (tuple, list)):
            dim = dim[0] if len(dim) == 1 else None
        return None if dim is None else replace(trail, part="sum", axis=int(dim) % given.dim())

    def quotient(
        self, above: Tensor, below: Tensor, result: Tensor, owner: str, training: bool
    ) -> Trail | None:
        """Exponentials over their sum are a softmax."""
        over, under = self._trails[above], self._trails[below]
        if over.part != "exp" or under.part != "sum" or under.axis is None:
            return None
        assert over.exponent is not None
        trail = replace(over, part=None, exponent=None)
        return self._weights(over.exponent, above, result, under.axis, trail, owner, training)

    def values(self, weights: Weights, product: Product, result: Tensor) -> None:
        """Weights times values: completes the attention, or makes one of a plain softmax."""
        evidence = weights.evidence
        if evidence.applied is not None:
            return
        keep = self._keeper.keep
        evidence.applied = keep(product.left)
        evidence.applied_order = product.left_order
        evidence.value = keep(product.right)
        evidence.value_order = product.right_order
        evidence.context = keep(result)
        evidence.context_order = product.out_order
        evidence.steps_after = weights.steps
        call = evidence.call
        if isinstance(call, SoftmaxCall):
            call = self._promote(evidence, call, None)
        if isinstance(call, AttentionCall):
            call.transforms_after = tuple(step.name for step in weights.steps)
            call.dropout = weights.dropout

    def _weights(
        self,
        given: Kept,
        seen: Tensor,
        result: Tensor,
        dim: int,
        trail: Trail,
        owner: str,
        training: bool,
        *,
        log: bool = False,
    ) -> Trail:
        scores = trail.scores if trail.part is None else None
        evidence = SoftmaxEvidence(
            given=given,
            result=self._keeper.keep(result),
            axis=dim % seen.dim(),
            scores_trail=scores,
            heads=self.heads or (scores.heads if scores is not None else None),
            training=training,
        )
        if self._is_doubtful(scores) or log:
            plain = SoftmaxCall(owner, dim % seen.dim(), log, evidence.given, evidence.result)
            self._record.softmaxes.append(plain)
            evidence.call = plain
        else:
            evidence.call = self._attention(evidence, owner, result)
        part = "log" if log else None
        return Trail(origins=trail.origins, weights=Weights(evidence), part=part)

    @staticmethod
    def _is_doubtful(scores: Scores | None) -> bool:
        return scores is None or scores.doubtful

    def _promote(
        self, evidence: SoftmaxEvidence, call: SoftmaxCall, live: Tensor | None
    ) -> AttentionCall:
        if call in self._record.softmaxes:
            self._record.softmaxes.remove(call)
        attention = self._attention(evidence, call.module, live)
        evidence.call = attention
        return attention

    def _attention(
        self, evidence: SoftmaxEvidence, owner: str, live: Tensor | None
    ) -> AttentionCall:
        scores = evidence.scores_trail
        call = AttentionCall(
            index=len(self._record.attention),
            module=owner,
            path=self.path,
            dtype=evidence.given.tensor.dtype,
            training=evidence.training,
            mask_dtype=self.mask_dtype,
            weights_tensor=live if self._keep_graph else None,
            evidence=evidence,
        )
        if scores is not None:
            query, key = (Trail(origins) for origins in scores.origins)
            call.is_cross = is_cross(query, key, scores.lengths_differ)
            call.dropout_before_softmax = scores.dropped > 0
            call.transforms_before = tuple(step.name for step in scores.steps)
            call.fills = scores.fills
            call.mask_dtype = self.mask_dtype or scores.mask_dtype
        self._record.attention.append(call)
        return call
