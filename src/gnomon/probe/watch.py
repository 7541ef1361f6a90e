"""The function mode: sees every call of a PyTorch function and hands it to those who know it."""

from __future__ import annotations

import types
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gnomon.probe import calls
from gnomon.probe.attention import AttentionCall
from gnomon.probe.calls import Call
from gnomon.probe.dispatch import DispatchWatch
from gnomon.probe.flex import FlexEvidence
from gnomon.probe.follow import Follower, is_cross
from gnomon.probe.fused import FusedEvidence
from gnomon.probe.kept import Keeper, storage
from gnomon.probe.names import ACTIVATIONS, DROPOUTS, PROJECTIONS, REDUCTIONS
from gnomon.probe.norms import NORMS, norm_call
from gnomon.probe.owners import Owners
from gnomon.probe.quiet import quiet
from gnomon.probe.recognise import Recogniser
from gnomon.probe.record import (
    ActivationCall,
    DropoutCall,
    EmbeddingCall,
    ProjectionCall,
    Record,
    Statistics,
)
from gnomon.probe.trails import Trail, Trails


class FunctionWatch(TorchFunctionMode):
    """Fills the record from calls of PyTorch functions."""

    def __init__(
        self,
        record: Record,
        root: nn.Module,
        owners: Owners,
        dispatch: DispatchWatch,
        keeper: Keeper,
        trails: Trails,
        *,
        keep_outputs: bool,
        keep_graph: bool,
    ) -> None:
        super().__init__()
        self._keep_outputs = keep_outputs
        self._record = record
        self._root = root
        self._owners = owners
        self._dispatch = dispatch
        self._keeper = keeper
        self._trails = trails
        self._recogniser = Recogniser(record, trails, keeper, keep_graph=keep_graph)
        self._follower = Follower(trails, keeper, self._parameter_storages)
        self._follower.on_values = self._recogniser.values
        self._follower.on_dropout = self._dropout_by_hand
        self._parameters: set[int] | None = None
        self._num_origins = 0
        self._opened: Any = None

    def new_origin(self) -> frozenset[int]:
        """A name for an input or a look-up that nothing else has."""
        self._num_origins += 1
        return frozenset((self._num_origins,))

    def __torch_function__(
        self,
        func: Any,
        types_: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run the function, and take note of it."""
        kwargs = kwargs or {}
        if torch._C._current_graph_task_id() != -1:  # the backward pass
            return func(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            return self._multi_head_attention(func, args, kwargs)
        call = calls.read(func, args, kwargs)
        if call is None:
            return func(*args, **kwargs)
        tensors = list(call.tensors())
        before = [self._trails[tensor] for tensor in tensors]
        if call.in_place and tensors:
            self._keeper.before_write(tensors[0])
        if call.name == "scaled_dot_product_attention":
            self._dispatch.last_kernel = None
        result = func(*args, **kwargs)
        with quiet():
            try:
                self._note(call, before, result)
            except Exception as error:
                # A tensor of a kind that was not foreseen must not end the user's computation.
                self._record.note(f"{call.name} in {self._owners.name!r} was not followed: {error}")
        return result

    def _note(self, call: Call, before: list[Trail], result: Any) -> None:
        name = call.name
        if name == "scaled_dot_product_attention":
            return self._fused(call, result)
        if name == "flex_attention" and isinstance(result, tuple):
            return self._flex(call, result[0])
        if name in NORMS:
            self._norm(call, result)
        elif name == "embedding" or (name in ("__getitem__", "index_select")):
            if self._embedding(call, result):
                return None
        elif name in DROPOUTS:
            self._dropout(call, before)
        elif name in ACTIVATIONS and isinstance(result, Tensor):
            self._activation(call, before, result)
        elif name in REDUCTIONS or name in ("rsqrt",):
            frame = self._owners.frame
            if frame is not None:
                frame.reduces = True
        elif name == "add":
            self._small_number(call)
        elif name in PROJECTIONS and self._keep_outputs:
            self._projection(call, result)
        if isinstance(result, Tensor) and isinstance(call.args[0], Tensor):
            trail = self._softmax(call, result)
            if trail is not None:
                self._trails[result] = trail
                return None
        self._follower.follow(call, before, result)
        return None

    def _small_number(self, call: Call) -> None:
        """Something like an eps was added."""
        number = call.argument(1, "other")
        frame = self._owners.frame
        if isinstance(number, float) and 0 < number < 0.1 and frame is not None:
            frame.small.append(number)

    # --- softmax by hand ---------------------------------------------------------------------

    def _softmax(self, call: Call, result: Tensor) -> Trail | None:
        name, given = call.name, call.args[0]
        if name in ("softmax", "_softmax", "log_softmax"):
            owner = self._owners.name_outside((nn.Softmax, nn.LogSoftmax))
            log = name == "log_softmax"
            return self._recogniser.softmax(call, result, owner, self._training(), log=log)
        if name == "exp":
            return self._recogniser.exponential(given, result)
        if name == "sum":
            return self._recogniser.total(call, given)
        if name == "div":
            below = call.argument(1, "other")
            if isinstance(below, Tensor):
                return self._recogniser.quotient(
                    given, below, result, self._owners.name, self._training()
                )
        return None

    def _training(self) -> bool:
        frame = self._owners.frame
        return self._root.training if frame is None else frame.module.training

    # --- attention by kernels ----------------------------------------------------------------

    def _multi_head_attention(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run `F.multi_head_attention_forward` so that what it calls is seen too.

        The function is itself overridable: called below a mode it runs with the mode off, called
        with the mode on it would hand itself over again. So its code runs with another
        `has_torch_function`.
        """
        if self._opened is None:
            names = {**func.__globals__, "has_torch_function": lambda *_: False}
            self._opened = types.FunctionType(
                func.__code__, names, func.__name__, func.__defaults__, func.__closure__
            )
            self._opened.__kwdefaults__ = func.__kwdefaults__
        query = args[0] if args else kwargs["query"]
        num_heads = args[4] if len(args) > 4 else kwargs["num_heads"]
        given = [
            mask.dtype
            for key in ("attn_mask", "key_padding_mask")
            if isinstance(mask := kwargs.get(key), Tensor)
        ]
        recogniser = self._recogniser
        outer = recogniser.path, recogniser.heads, recogniser.mask_dtype
        batch = query.shape[1] if query.dim() == 3 else 1
        recogniser.path, recogniser.heads = "mha", (batch, num_heads)
        frame = self._owners.frame
        outside = None if frame is None else frame.mask_dtype
        recogniser.mask_dtype = outside or (given[0] if given else None)
        try:
            with self:
                return self._opened(*args, **kwargs)
        finally:
            recogniser.path, recogniser.heads, recogniser.mask_dtype = outer

    def _fused(self, call: Call, result: Any) -> None:
        query, key, value = (
            call.argument(place, name) for place, name in enumerate(("query", "key", "value"))
        )
        mask = call.argument(3, "attn_mask")
        if isinstance(mask, Tensor) and hasattr(mask, "_materialize"):
            mask = mask._materialize()  # torch.nn.attention.bias.CausalBias
        of_query, of_key = self._trails[query], self._trails[key]
        scale = call.argument(6, "scale")
        keep = self._keeper.keep
        evidence = FusedEvidence(
            query=keep(query),
            key=keep(key),
            value=keep(value),
            mask_given=None if mask is None else keep(mask),
            is_causal=bool(call.argument(5, "is_causal", False)),
            given_scale=None if scale is None else float(scale),
            factors=(of_query.factor, of_key.factor),
            result=keep(result),
            repeats=of_key.repeats,
            heads=self._recogniser.heads or of_query.merged or of_key.merged,
        )
        # without a kernel of its own PyTorch computes it step by step
        kernel = self._dispatch.last_kernel or "math"
        mask_dtype = self._recogniser.mask_dtype or (None if mask is None else mask.dtype)
        self._record.attention.append(
            AttentionCall(
                index=len(self._record.attention),
                module=self._owners.name,
                path="mha" if self._recogniser.path == "mha" else "sdpa",
                dtype=query.dtype,
                training=self._training(),
                is_cross=is_cross(of_query, of_key, query.shape[-2] != key.shape[-2]),
                is_causal=evidence.is_causal,
                mask_dtype=mask_dtype,
                dropout=float(call.argument(4, "dropout_p", 0.0)),
                kernel=kernel,
                evidence=evidence,
            )
        )
        origins = of_query.origins | of_key.origins | self._trails[value].origins
        self._trails[result] = Trail(origins)

    def _flex(self, call: Call, result: Tensor) -> None:
        """The operator inside `flex_attention`."""
        query, key, value, score_mod, block_mask, scale = call.args[:6]
        keep = self._keeper.keep
        of_query, of_key = self._trails[query], self._trails[key]
        evidence = FlexEvidence(
            query=keep(query),
            key=keep(key),
            value=keep(value),
            mask_given=None,
            is_causal=False,
            given_scale=float(scale),
            factors=(of_query.factor, of_key.factor),
            result=keep(result),
            repeats=of_key.repeats,
            score_mod=score_mod,
            mask_mod=block_mask[-1],
        )
        self._record.attention.append(
            AttentionCall(
                index=len(self._record.attention),
                module=self._owners.name,
                path="fused",
                dtype=query.dtype,
                training=self._training(),
                is_cross=is_cross(of_query, of_key, query.shape[-2] != key.shape[-2]),
                kernel="flex_attention",
                evidence=evidence,
            )
        )
        self._trails[result] = Trail(
            of_query.origins | of_key.origins | self._trails[value].origins
        )

    # --- everything else ---------------------------------------------------------------------

    def _parameter_storages(self) -> set[int]:
        if self._parameters is None:
            self._parameters = {storage(p) for p in self._root.parameters()}
        return self._parameters

    def _projection(self, call: Call, result: Any) -> None:
        """A product of one tensor with parameters; that of `nn.Linear` is its module's call."""
        frame = self._owners.frame
        if not isinstance(result, Tensor) or (frame and type(frame.module) is nn.Linear):
            return
        args = call.args
        if call.name == "einsum" and len(args) == 2 and isinstance(args[1], (list, tuple)):
            args = (args[0], *args[1])
        parameters = self._parameter_storages()
        tensors = [(place, x) for place, x in enumerate(args) if isinstance(x, Tensor)]
        tensors = [(place, x) for place, x in tensors if storage(x) not in parameters]
        others = sum(1 for _ in call.tensors()) - len(tensors)
        if len(tensors) != 1 or not others:
            return
        place, given = tensors[0]
        before, after, func, more = args[:place], args[place + 1 :], call.func, call.kwargs
        self._record.projections.append(
            ProjectionCall(
                self._owners.name,
                self._owners.count,
                lambda x: func(*before, x, *after, **more),
                self._keeper.keep(given),
                self._keeper.keep(result),
            )
        )

    def _norm(self, call: Call, result: Any) -> None:
        frame = self._owners.frame
        if frame is not None:
            frame.has_norm = True
        found = norm_call(call, result, self._owners.name, self._keeper)
        if found is not None:
            self._record.norms.append(found)

    def _embedding(self, call: Call, result: Any) -> bool:
        """A look-up of rows of a parameter by whole numbers."""
        if not isinstance(result, Tensor):
            return False
        padding_idx = None
        if call.name == "embedding":
            ids, table = call.args[0], call.argument(1, "weight")
            padding_idx = call.argument(2, "padding_idx")
        else:
            table, ids = call.args[0], call.args[-1]
            if not (isinstance(table, nn.Parameter) and table.dim() == 2):
                return False
        if not isinstance(ids, Tensor) or ids.is_floating_point() or ids.dtype == torch.bool:
            return False
        if padding_idx is not None and padding_idx < 0:
            padding_idx += table.shape[0]
        keep = self._keeper.keep
        self._record.embeddings.append(
            EmbeddingCall(self._owners.name, table, padding_idx, keep(ids), keep(result))
        )
        self._trails[result] = Trail(self.new_origin())
        return True

    def _dropout(self, call: Call, before: list[Trail]) -> None:
        p, training = float(call.argument(1, "p", 0.5)), bool(call.argument(2, "training", True))
        self._note_dropout(call.args[0], before[0] if before else Trail(), p, training)

    def _dropout_by_hand(self, tensor: Tensor, zeroed: Tensor) -> None:
        """A tensor was multiplied with random zeros; p is the share of them."""
        self._note_dropout(tensor, self._trails[tensor], float(zeroed.float().mean()), True)

    def _note_dropout(self, tensor: Tensor, trail: Trail, p: float, training: bool) -> None:
        position: Literal["before softmax", "weights"] | None = None
        if trail.scores is not None and trail.part is None:
            position = "before softmax"
        elif trail.weights is not None:
            position = "weights"
        self._record.dropouts.append(
            DropoutCall(self._owners.name, p, training, position, tuple(tensor.shape))
        )

    def _activation(self, call: Call, before: list[Trail], result: Tensor) -> None:
        if any(trail.scores is not None for trail in before) and call.name == "tanh":
            return  # soft-capped scores
        dead = torch.zeros(())
        if result.dim() and result.numel():
            dead = (result == 0).reshape(-1, result.shape[-1]).all(0).float().mean()
        self._record.activations.append(
            ActivationCall(self._owners.name, call.name, Statistics(result), dead)
        )
