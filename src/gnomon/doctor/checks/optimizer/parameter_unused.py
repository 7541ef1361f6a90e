"""parameter-unused: every parameter of a recipe's model is trained."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import Outcome, Skip, failure, passed

_FAULTY = """
    import torch
    from torch import nn
    from gnomon.recipes import TranslationRecipe

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.norm = nn.LayerNorm(16)  # forgotten in forward
            self.head = nn.Linear(16, 50)

        def forward(self, ids):
            return self.head(self.layer(self.embed(ids)))

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))

        def loss(module, batch):
            return nn.functional.cross_entropy(module(batch["ids"]).flatten(0, 1), ids.flatten())

        recipe = TranslationRecipe()
        return {"module": Model(), "batch": {"ids": ids}, "loss": loss, "recipe": recipe}
"""
_MENDED = _FAULTY.replace("self.head(self.layer(", "self.head(self.norm(self.layer(").replace(
    "self.embed(ids)))", "self.embed(ids))))"
)


@check(
    code="parameter-unused",
    title="Every parameter of a recipe's model is trained",
    fault="Parameters of a recipe's model are not trained",
    cost="probe",
    cause="The part was made and is not called, or its output is thrown away.",
    mend="Call it in forward, or do not make it.",
    reference="PyTorch documentation: DistributedDataParallel, find_unused_parameters",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def parameter_unused(case: Case) -> Outcome:
    """A parameter without a gradient stays what chance made it, takes memory, and is shipped.

    Only of a model that a recipe describes is it known that all of it is meant to be trained;
    others often carry a head that their loss does not use.
    """
    case.loss_gives_gradients  # noqa: B018 - skips where no training loss is known
    asked = [name for name, p in case.module.named_parameters() if p.requires_grad]
    silent = [name for name in asked if case.gradients[name] is None]
    if not silent:
        return passed(f"all {len(asked)} parameters get a gradient")
    if case.patient.recipe is None:
        raise Skip(
            f"{len(silent)} of {len(asked)} parameters get no gradient ({listed(silent)}); only "
            "of a recipe's model is every one known to be meant for training"
        )
    return failure(
        f"{len(silent)} of {len(asked)} parameters get no gradient: {listed(silent)}",
        where=silent,
        count=len(silent),
    )
