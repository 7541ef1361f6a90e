"""Sparse attention in blocks: time and memory linear in the length, trainable on any device.

Queries are cut into blocks. The keys that a block may see lie side by side, so that they are a
slice of the text; a few global keys stand in front of them. A block's attention is then plain
attention over few keys, with the blocks as its batch. A dilated window is cut into as many texts
as a step is long, each of every so manieth token, in which it is a plain window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gnomon.model.masks import Mask

Dense = Callable[[Tensor, Tensor, Tensor, Mask], Tensor]

# In queries: smaller blocks spend more on being cut than they save (docs: long context).
SMALLEST_BLOCK = 64


def can_block(mask: Mask) -> bool:
    """Whether attention under `mask` can be computed in blocks."""
    return (
        mask.pattern is not None
        and mask.given_bias is None
        and mask.limit is None
        and mask.documents is None
        # The bias goes by places in the batch, the pattern by places in the text.
        and (mask.score_bias is None or mask.ends_with_padding)
        and mask.num_queries == mask.num_keys
        and not torch.compiler.is_compiling()  # how many blocks there are depends on the length
    )


def blocks_pay(mask: Mask) -> bool:
    """Whether the text is so long that blocks are faster than one large masked matrix."""
    return mask.num_keys > 3 * (Cut.of(mask).span + mask.num_global)


def blocked(query: Tensor, key: Tensor, value: Tensor, mask: Mask, dense: Dense) -> Tensor:
    """Attention under a sparse pattern.

    Args:
        query: `[B, H, L, K]`.
        key: `[B, G, L, K]`.
        value: `[B, G, L, K]`.
        mask: a sparse pattern, with or without look-ahead and padding.
        dense: plain attention, called with the blocks as its batch and once for global queries.

    Returns:
        `[B, H, L, K]`.
    """
    plan = plan_of(mask, len(query))
    if plan.order is not None:
        query, key, value = (take(x, plan.order) for x in (query, key, value))
    output = local(query, key, value, plan, dense)
    if plan.global_queries is not None:
        seeing_all = dense(take(query, plan.global_places), key, value, plan.global_queries)
        output = put(output, plan, seeing_all)
    return output if plan.order is None else take(output, plan.order.argsort(dim=-1))


@dataclass(frozen=True)
class Cut:
    """How a text is cut: the numbers of tokens are those of every `dilation`-th token."""

    # texts that a dilated window falls into
    dilation: int
    # queries in a block
    size: int
    # keys that a block sees before its first query
    before: int
    # keys that a block sees after its last query
    after: int

    @classmethod
    def of(cls, mask: Mask) -> Cut:
        """The cut for the pattern of `mask`."""
        pattern = mask.pattern
        assert pattern is not None
        # Where the pattern does not say, sizes that kernels like: a window of 256 has a reach of
        # 255, and in blocks of 255 took a sixth longer than in blocks of 256.
        step = pattern.unit if pattern.unit > 1 else max(SMALLEST_BLOCK // 2, 1)
        size = -(-max(SMALLEST_BLOCK, pattern.reach) // step) * step
        after = 0 if mask.causal else pattern.reach
        return cls(pattern.dilation, size, pattern.reach, after)

    @property
    def span(self) -> int:
        """Keys beside one another that a block sees."""
        return self.before + self.size + self.after

    def queries(self, x: Tensor) -> Tensor:
        """`[B, H, L, K]` as `[B * texts * blocks, H, size, K]`."""
        x = self.part(x)
        num_blocks = -(-x.shape[2] // self.size)
        x = F.pad(x, (0, 0, 0, num_blocks * self.size - x.shape[2]))
        return torch.unflatten(x, 2, (num_blocks, self.size)).transpose(1, 2).flatten(0, 1)

    def keys(self, x: Tensor) -> Tensor:
        """`[B, G, L, K]` as `[B * texts * blocks, G, span, K]`; of one text a view."""
        x = self.part(x)
        tail = -x.shape[2] % self.size
        x = F.pad(x, (0, 0, self.before, tail + self.after))
        return x.unfold(2, self.span, self.size).permute(0, 2, 1, 4, 3).flatten(0, 1)

    def part(self, x: Tensor) -> Tensor:
        """`[B, G, L, K]` as `[B * dilation, G, ceil(L / dilation), K]`: the texts of a stride."""
        if self.dilation == 1:
            return x
        x = F.pad(x, (0, 0, 0, -x.shape[2] % self.dilation))
        return torch.unflatten(x, 2, (-1, self.dilation)).permute(0, 3, 1, 2, 4).flatten(0, 1)

    def join(self, x: Tensor, length: int) -> Tensor:
        """The inverse of `queries`: `[B, H, L, K]` of a text of `length`."""
        part_length = -(-length // self.dilation)
        num_blocks = -(-part_length // self.size)
        x = torch.unflatten(x, 0, (-1, num_blocks)).transpose(1, 2).flatten(2, 3)
        if self.dilation > 1:
            x = torch.unflatten(x, 0, (-1, self.dilation)).permute(0, 2, 3, 1, 4)
            x = x[:, :, :part_length].flatten(2, 3)
        return x[:, :, :length]


@dataclass(frozen=True)
class Plan:
    """What all layers share of an attention in blocks."""

    cut: Cut
    # int [B, L]: real tokens first, for texts with padding before or within them
    order: Tensor | None
    # int [B or 1, g]: the global tokens' places in the order above
    global_places: Tensor
    # bool [B or 1, g]: whether there is one, as a text may have fewer than others
    global_real: Tensor
    # of all blocks: size queries over g global keys and the span
    blocks: Mask
    # of the global queries over the whole text; None where the blocks show them all they may see
    global_queries: Mask | None


def plan_of(mask: Mask, batch_size: int) -> Plan:
    """The plan for `mask`, made when the first layer asks."""
    if mask.plan is None:
        mask.plan = make_plan(mask, batch_size)
    assert isinstance(mask.plan, Plan)
    return mask.plan


def make_plan(mask: Mask, batch_size: int) -> Plan:
    """Who sees whom within each block, and what is asked for outside of them."""
    L, cut, order = mask.num_keys, Cut.of(mask), None
    rows = max(len(mask.real), len(mask.is_global))
    real, is_global = mask.real.expand(rows, -1), mask.is_global.expand(rows, -1)
    if not mask.ends_with_padding:
        order = real.int().argsort(dim=-1, descending=True, stable=True)
        real, is_global = real.gather(1, order), is_global.gather(1, order)
    places = is_global.int().argsort(dim=-1, descending=True, stable=True)[:, : mask.num_global]
    global_real = is_global.gather(1, places)

    limit = block_limit(mask, cut, real & ~is_global, places, global_real)
    bias = block_bias(mask, cut, places)
    blocks = Mask(
        cut.size,
        limit.shape[-1],
        mask.device,
        limit=for_batch(limit, rows, batch_size),
        bias=None if bias is None else for_batch(bias, rows, batch_size),
    )
    global_queries = None
    if mask.num_global and not mask.causal:
        bias = None if mask.score_bias is None else mask.score_bias.at(from_globals(places, L))
        whole = real[:, None, None, :]
        global_queries = Mask(mask.num_global, L, mask.device, limit=whole, bias=bias)
    return Plan(cut, order, places, global_real, blocks, global_queries)


def for_batch(x: Tensor, rows: int, batch_size: int) -> Tensor:
    """`[rows * blocks, …]` as `[B * blocks, …]`, where `rows` is B or 1."""
    by_row = torch.unflatten(x, 0, (rows, -1))
    return by_row.expand(batch_size, *by_row.shape[1:]).flatten(0, 1)


def block_limit(mask: Mask, cut: Cut, own: Tensor, places: Tensor, global_real: Tensor) -> Tensor:
    """Who may be seen within each block: bool `[rows * texts * blocks, 1, size, g + span]`.

    Args:
        mask: of the whole text.
        cut: how it is cut.
        own: bool `[rows, L]`, real tokens that are not global; those stand in front of every span.
        places: as in `Plan`.
        global_real: as in `Plan`.
    """
    beside = cut.keys(own[:, None, :, None])[..., 0].unsqueeze(2)
    limit = beside & near_in_block(mask, cut)
    if not mask.num_global:
        return limit
    seen = global_real[:, None, None, :].expand(-1, 1, mask.num_keys, -1)
    if mask.causal:
        token = torch.arange(mask.num_keys, device=mask.device)[:, None]
        seen = seen & (places[:, None, None, :] <= token)
    return torch.cat((cut.queries(seen), limit), dim=-1)


def block_bias(mask: Mask, cut: Cut, places: Tensor) -> Tensor | None:
    """The scores' bias within each block: `[rows * texts * blocks, H, size, g + span]`."""
    if mask.score_bias is None:
        return None
    queries, keys = in_block(mask, cut)
    near = mask.score_bias.at((queries - keys) * cut.dilation)[None]
    to_globals = -from_globals(places, mask.num_keys).transpose(-2, -1)  # [rows, L, g]
    far = cut.queries(mask.score_bias.at(to_globals))
    return torch.cat((far, near.expand(len(far), -1, -1, -1)), dim=-1)


def from_globals(places: Tensor, length: int) -> Tensor:
    """`[rows, g, L]`: how many tokens each token of the text lies before each global one."""
    return places[..., None] - torch.arange(length, device=places.device)


def in_block(mask: Mask, cut: Cut) -> tuple[Tensor, Tensor]:
    """Places `[size, 1]` of queries and `[span]` of keys, counted from a block's first key."""
    queries = torch.arange(cut.size, device=mask.device)[:, None] + cut.before
    return queries, torch.arange(cut.span, device=mask.device)


def near_in_block(mask: Mask, cut: Cut) -> Tensor:
    """`[size, span]`: the pattern and look-ahead within any block, as all are alike."""
    assert mask.pattern is not None
    queries, keys = in_block(mask, cut)
    near = mask.pattern.near(queries * cut.dilation, keys * cut.dilation)
    return near & (keys <= queries) if mask.causal else near


def local(query: Tensor, key: Tensor, value: Tensor, plan: Plan, dense: Dense) -> Tensor:
    """Every query's attention to its neighbourhood and the global keys: `[B, H, L, K]`."""
    cut, L = plan.cut, query.shape[2]
    queries, keys, values = cut.queries(query), cut.keys(key), cut.keys(value)
    if plan.global_places.shape[1]:
        num_blocks = len(queries) // len(query)  # of one text
        keys, values = (
            torch.cat((take(x, plan.global_places).repeat_interleave(num_blocks, 0), near), dim=2)
            for x, near in ((key, keys), (value, values))
        )
    return cut.join(dense(queries, keys, values, plan.blocks), L)


def take(x: Tensor, places: Tensor) -> Tensor:
    """Tokens of `x [B, G, L, K]` at `places [B or 1, g]`: `[B, G, g, K]`."""
    B, G, _, K = x.shape
    return x.gather(2, places[:, None, :, None].expand(B, G, -1, K))


def put(x: Tensor, plan: Plan, new: Tensor) -> Tensor:
    """`x [B, H, L, K]` with `new [B, H, g, K]` at the global tokens that there are."""
    old = take(x, plan.global_places)
    new = torch.where(plan.global_real[:, None, :, None], new, old)
    return x.scatter(2, plan.global_places[:, None, :, None].expand_as(new), new)
