"""embedding-rows: tokens have vectors of their own."""

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.positions.embedded import text_lookups
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed, warning
from gnomon.doctor.inputs import known_pad_id

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            with torch.no_grad():
                self.embed.weight[5:15] = 0.0  # as after a resize that filled with zeros

        def forward(self, ids):
            return self.layer(self.embed(ids))

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.arange(1, 17).view(2, 8)}}
"""
_MENDED = _FAULTY.replace(
    "self.embed.weight[5:15] = 0.0  # as after a resize that filled with zeros",
    "nn.init.normal_(self.embed.weight[5:15])",
)


@check(
    code="embedding-rows",
    title="Tokens have vectors of their own",
    fault="Rows of the token table are zero, equal or not finite",
    cost="probe",
    cause="Rows were added or overwritten and never initialised or trained.",
    mend="Draw those rows from the distribution of the others (or from the mean of their parts), "
    "and train them.",
    reference="Hewitt 2021, Initializing New Word Embeddings for Pretrained Language Models",
    symptoms=("gibberish", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def embedding_rows(case: Case) -> Outcome:
    """Tokens with zero or equal vectors cannot be told apart by anything that follows.

    The row of padding is left out, and so are spare rows at the end of a table that is larger than
    the vocabulary.
    """
    owners = {id(p): name.removesuffix(".weight") for name, p in case.module.named_parameters()}
    tables: dict[int, tuple[str, Tensor, set[int]]] = {}
    texts = [case.call.text(name) for name in case.call.streams]
    used = {
        int(each)
        for text in texts
        if not text.is_floating_point()
        for each in text.flatten().tolist()
    }
    for each in text_lookups(case):
        if each.table.dim() == 2:
            spare = (each.padding_idx, known_pad_id(case.patient))
            padding = {row for row in spare if row is not None}
            name = owners.get(id(each.table), each.module)
            tables[id(each.table)] = (name, each.table.detach(), padding)
    if not tables:
        if case.reads_vectors:
            raise NotApplicable("the model reads vectors: it has no table of tokens")
        raise Skip("the text's ids are not looked up in a table as they are given")
    total = 0
    for module, table, padding in tables.values():
        total += table.size(0)
        outcome = _of_table(module, table.float(), padding, used)
        if outcome is not None:
            return outcome
    return passed(f"no zero, equal or non-finite rows among {total}", rows=total)


def _of_table(module: str, table: Tensor, padding: set[int], used: set[int]) -> Outcome | None:
    size = table.norm(dim=1)
    broken = [row for row in (~size.isfinite()).nonzero().flatten().tolist() if row not in padding]
    if broken:
        return failure(
            f"{len(broken)} rows of {module} are not finite: {_listed(broken)}",
            where=module,
            rows=broken[:20],
        )
    zero = [row for row in (size == 0).nonzero().flatten().tolist() if row not in padding]
    zero = _without_spare(zero, table.size(0), used)
    if zero:
        seen = [row for row in zero if row in used]
        judge = failure if seen else warning
        return judge(
            f"{len(zero)} of {table.size(0)} rows of {module} are "
            f"zero: {_listed(zero)}; {len(seen)} of them are used in the batch",
            where=module,
            cause="Rows were filled with zeros and never trained, or set to zero by mistake.",
            rows=zero[:20],
        )
    _, inverse, counts = torch.unique(table, dim=0, return_inverse=True, return_counts=True)
    equal = (counts[inverse] > 1).nonzero().flatten().tolist()
    equal = [row for row in equal if row not in padding and float(size[row]) > 0]
    equal = _without_spare(equal, table.size(0), used)
    if len(equal) < 2:
        return None
    groups = len({int(inverse[row]) for row in equal})
    seen = [row for row in equal if row in used]
    together = len({int(inverse[row]) for row in seen}) < len(seen)
    judge = failure if together else warning
    return judge(
        f"{len(equal)} of {table.size(0)} rows of {module} are equal "
        f"to another: {_listed(equal)} ({groups} different vectors); {len(seen)} of them are used "
        "in the batch",
        where=module,
        cause="Several tokens share one vector: rows were copied, or added with one filling.",
        rows=equal[:20],
    )


def _without_spare(rows: list[int], size: int, used: set[int]) -> list[int]:
    """Without an unused run of rows at the table's end: spare room of a padded vocabulary."""
    found = set(rows)
    last = size - 1
    while last in found and last not in used:
        found.discard(last)
        last -= 1
    return sorted(found)


def _listed(rows: list[int]) -> str:
    return ", ".join(map(str, rows[:5])) + (" …" if len(rows) > 5 else "")
