"""The worked-up view of a patient that checks use: facts, computed at first use and kept."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gnomon.doctor.call import Call, Key
from gnomon.doctor.facts.attention.sights import Sight, sights
from gnomon.doctor.facts.layers.blocks import Block, block_names, blocks
from gnomon.doctor.facts.loss import losses
from gnomon.doctor.facts.loss.objective import Objective, read_objective
from gnomon.doctor.facts.training.schedules import Rates, learning_rates
from gnomon.doctor.facts.training.stepping import Stepped, micro_batches, steps
from gnomon.doctor.finding import NotApplicable, Skip
from gnomon.doctor.forms import SelfAttention, quantised
from gnomon.doctor.inputs import call_of, config_of, named, with_decoder_inputs
from gnomon.doctor.intent import Intent, infer
from gnomon.doctor.made_up import make_inputs
from gnomon.doctor.patient import Patient
from gnomon.doctor.remembering import Remembering, fact
from gnomon.doctor.restore import untouched
from gnomon.doctor.run import Run, rounding, run
from gnomon.probe import Record

_ROWS, _LENGTH = 3, 24  # of the call that is perturbed: enough to show a fault, and quick


class Case(Remembering):
    """What is known of a patient. A fact that is not to be had raises `Skip` with the reason.

    Runs are made in evaluation mode without gradients under a fixed seed, unless said otherwise.
    """

    def __init__(self, patient: Patient) -> None:
        super().__init__()
        self.patient = patient

    # The module

    @fact
    def module(self) -> nn.Module:
        """The model.

        Raises:
            Skip: there is none, or its parameters have no values yet.
        """
        module = self.patient.module
        if module is None:
            raise Skip("there is no model")
        if any(is_lazy(parameter) for parameter in module.parameters()):
            raise Skip("some parameters get their shape at the first call: call it once before")
        if any(parameter.is_meta for parameter in module.parameters()):
            raise Skip("its parameters are on the meta device: they have no values")
        return SelfAttention(module) if isinstance(module, nn.MultiheadAttention) else module

    @fact
    def kind(self) -> Literal["gnomon", "huggingface", "torch"]:
        """Whose model it is."""
        packages = {each.__module__.split(".")[0] for each in type(self.patient.module).__mro__}
        if "transformers" in packages:
            return "huggingface"
        return "gnomon" if "gnomon" in packages else "torch"

    @fact
    def config(self) -> Any:
        """Its configuration (gnomon's, Hugging Face's or whatever it carries).

        Raises:
            Skip: it carries none, and none was handed over.
        """
        config = config_of(self.patient)
        if config is None:
            raise Skip("the model carries no configuration")
        return config

    @fact
    def dtype(self) -> torch.dtype:
        """Of its parameters."""
        return next((p.dtype for p in self.module.parameters()), torch.float32)

    @fact
    def tolerance(self) -> float:
        """How far equal results may lie apart by rounding, in units of their spread.

        Raises:
            Skip: any other word in the batch moves all results.
        """
        if names := quantised(self.module, dynamically=True):
            raise Skip(
                f"{len(names)} int8 layers ({names[0]} …) round by the largest value of the whole "
                "batch, so that any word moves all results: examine the model before quantisation"
            )
        return max(map(rounding, {self.dtype, *self._attends_in}))

    @property
    def _attends_in(self) -> set[torch.dtype]:
        """Whatever the weights are in, a model may compute in half precision (autocast inside)."""
        try:
            return {c.query.dtype for c in self.seen.record.attention if c.query is not None}
        except Exception:  # it does not run: told by whoever runs it
            return set()

    # Inputs and runs

    @fact
    def call(self) -> Call:
        """The batch that was handed over, else a made-up one."""
        patient = _wrapped(self)
        batch = patient.batch
        values = make_inputs(patient) if batch is None else named(self.module, batch)
        return self._with_mask(call_of(patient, with_decoder_inputs(patient, values)))

    def _with_mask(self, call: Call) -> Call:
        """Hugging Face's models hide padding by a mask alone, and texts of one length need none.

        Such a call is given one, so that padding can be tried as the model takes it. Not where
        functions of the user's read a batch by place.
        """
        patient = self.patient
        given = (patient.loss, patient.step, patient.generate, patient.beam_generate)
        is_called = any(function is not None for function in given)
        by_place = is_called and not isinstance(patient.batch, Mapping)
        if self.kind != "huggingface" or by_place or not bool(call.keep("source").all()):
            return call
        return self.told(call)

    @fact
    def reads_vectors(self) -> bool:
        """Whether no text of its inputs is ids: whoever calls it looks up tokens and positions."""
        return all(self.call.text(name).is_floating_point() for name in self.call.streams)

    def worked_up(self, values: Mapping[Key, Any]) -> Call:
        """Other inputs as a call."""
        return call_of(_wrapped(self), values)

    def told(self, call: Call) -> Call:
        """The call with the source's padding mask, where the model takes one and it holds none."""
        if call.told("source") or self.patient.module is not self.module:
            return call
        takes = inspect.signature(self.module.forward).parameters
        keep = call.keep("source")
        if "attention_mask" in takes:
            return self.worked_up({**call.values, "attention_mask": keep.long()})
        if "keep" in takes and takes["keep"].default is None:
            return self.worked_up({**call.values, "keep": keep})
        return call

    @fact
    def small(self) -> Call:
        """Three rows of at most 24 positions of `call`: what checks perturb and pad.

        Without labels, so that no loss is computed along. A row is one document: see `packed`.
        """
        call = self.call.without_any("labels")
        if call.is_packed(call.read):
            call = call.one_document(call.read)
        return self._cut(call, 0)

    @fact
    def packed(self) -> Call:
        """As `small`, where several documents meet in a row.

        Raises:
            Skip: nothing tells the documents of a row apart; `NotApplicable`: each row holds one.
        """
        call = self.call.without_any("labels")
        documents = call.documents(call.read)
        if documents is None:
            raise Skip(
                "nothing says that rows hold several documents: name the input by document_key="
            )
        if not call.is_packed(call.read):
            raise NotApplicable("each row of the batch holds one document")
        # The rows that meet first come first, so that the three of them hold some.
        meet = documents[:, 1:] != documents[:, :-1]
        meet &= (documents[:, 1:] >= 0) & (documents[:, :-1] >= 0)
        first = torch.where(meet.any(1), meet.int().argmax(1), meet.size(1))
        order = first.argsort(stable=True).tolist()
        border = int(first.min())
        call = call.rows(order)
        last = call.length(call.read) - _LENGTH
        return self._cut(call, min(max(0, border - _LENGTH // 2), max(0, last)))

    def _cut(self, call: Call, start: int) -> Call:
        cut = call.rows([row % call.num_rows() for row in range(_ROWS)])
        if call.num_rows() < _ROWS:
            for stream in cut.streams:
                where = torch.zeros(cut.text(stream).shape[:2], dtype=torch.bool)
                where[call.num_rows() :] = True
                cut = cut.perturbed(stream, where & cut.keep(stream).cpu())
        for stream in cut.streams:
            if cut.length(stream) > _LENGTH:
                cut = cut.cut(stream, start, start + _LENGTH)
        try:
            self.run(cut)
        except Exception:  # a model that insists on its batch's size
            return call
        return cut

    def run(self, call: Call, *, record: bool = False, keep_outputs: bool = False) -> Run:
        """Call the model in evaluation mode, without gradients."""
        self.module.eval()
        with torch.no_grad():
            torch.manual_seed(0)
            return run(self.module, call, record=record, keep_outputs=keep_outputs)

    def observed(self, call: Call) -> Run:
        """As `run`, with the probe's record and every submodule's output."""
        return self.run(call, record=True, keep_outputs=True)

    @fact
    def base(self) -> Run:
        """The model on `small`, unobserved."""
        return self.run(self.small)

    @fact
    def seen(self) -> Run:
        """The model on `small`, observed."""
        return self.observed(self.small)

    @fact
    def record(self) -> Record:
        """What the probe saw on `small`.

        Raises:
            Skip: no attention was seen.
        """
        record = self.seen.record
        if not record.attention:
            if any(isinstance(each, torch.jit.ScriptModule) for each in self.module.modules()):
                raise Skip("nothing inside TorchScript can be seen: examine the module before it")
            raise Skip("no attention call was seen in this module")
        return record

    @fact
    def in_training(self) -> Run:
        """The model on `small`, observed in training mode, without gradients."""
        call = self.small
        with untouched(self.module), torch.no_grad():
            self.module.train()
            return run(self.module, call, record=True, keep_outputs=True)

    @fact
    def padded(self) -> Call:
        """`small` with more padding at the right of each text whose padding the model is told of.

        Source and target then differ in length, so that it can be told which of them is attended.

        Raises:
            Skip: nothing tells the model where padding is.
        """
        call = self.small
        told = [name for name, stream in call.streams.items() if stream.hides_padding]
        if not told:
            raise Skip(
                "nothing tells the model where padding is: no mask among the inputs, no pad id"
            )
        for name in told:
            call = call.padded(name, 5, "right")
        if len({call.length(name) for name in call.streams}) < len(call.streams):
            call = call.padded(told[-1], 1, "right")
        return call

    @fact
    def padded_seen(self) -> Run:
        """The model on `padded`, observed."""
        return self.observed(self.padded)

    @fact
    def sights(self) -> list[Sight]:
        """Who sees whom on `padded`, or on `small` where padding is not told.

        Raises:
            Skip: no attention whose weights can be seen fits the texts.
        """
        try:
            found = sights(self.padded_seen)
        except Skip:
            found = sights(self.seen)
        if not found:
            raise Skip("no attention call was seen whose queries and keys are the texts' tokens")
        return found

    @property
    def sights_if_any(self) -> list[Sight]:
        """`sights`, empty where none are to be had: what was measured is told without a place."""
        try:
            return self.sights
        except Skip:
            return []

    @fact
    def intent(self) -> Intent:
        """What the model is meant to be."""
        return infer(self.patient, self.call, self.seen.record)

    @fact
    def must_not_look_ahead(self) -> Intent:
        """The intent of a model whose positions must not see later ones.

        Raises:
            Skip: it may, or nobody knows.
        """
        intent = self.intent
        if intent.causal is None:
            raise Skip(
                f"whether it is causal is not known ({intent.reason}): say causal=True or False"
            )
        if not intent.causal:
            reason = f"the model reads in both directions ({intent.reason})"
            if intent.observed:  # as one does whose mask was forgotten
                raise Skip(f"{reason}: say causal=True if it must not")
            raise NotApplicable(reason)
        return intent

    @fact
    def blocks(self) -> list[Block]:
        """The layers, with what their residual stream carries."""
        return blocks(self)

    @fact
    def block_names(self) -> list[str]:
        """Dotted names of the layers, in the order of their calls."""
        return block_names(self)

    # Loss and gradients

    def loss(self, call: Call) -> Tensor:
        """The training loss on a call, a scalar, as the user computes it or the model itself does.

        Raises:
            Skip: neither is known.
            DoctorError: the function steps an optimizer.
        """
        return losses.loss(self, call)

    def labelled(self, call: Call) -> Call:
        """The call with labels, for a model that computes its loss itself.

        Raises:
            Skip: the model takes no labels.
        """
        return losses.labelled(self, call)

    def any_loss(self, call: Call) -> Tensor:
        """For gradients, a scalar: the training loss, else the next token's, else a projection."""
        return losses.any_loss(self, call)

    @fact
    def gradients(self) -> dict[str, Tensor | None]:
        """Each parameter's gradient of `any_loss` on `call`, of its own shape, without dropout.

        Raises:
            Skip: no gradient comes out of the model.
        """
        return losses.gradients(self)

    @fact
    def labels_are_invented(self) -> bool:
        """Whether the loss asks for labels that nobody handed over and that are not the text."""
        return losses.labels_are_invented(self)

    @fact
    def loss_gives_gradients(self) -> bool:
        """Whether `gradients` are those of the training loss.

        Raises:
            Skip: no training loss is known.
        """
        self.must_take_gradients()
        with untouched(self.module), torch.enable_grad():
            return self.loss(self.call).requires_grad

    @fact
    def objective(self) -> Objective:
        """What the training loss asks of each position, on `brief`."""
        return read_objective(self, self.brief)

    @fact
    def brief(self) -> Call:
        """At most four rows of `call`, the shortest and the longest, labels included."""
        call = self.call
        if call.num_rows() <= 4:
            return call
        counts = call.keep(call.read).sum(1).tolist()
        order = sorted(range(call.num_rows()), key=lambda row: counts[row])
        return call.rows([*order[:2], *order[-2:]])

    # Training

    @fact
    def learning_rates(self) -> Rates:
        """The learning rate over the planned training."""
        return learning_rates(self.patient)

    @fact
    def stepped(self) -> dict[str, Stepped]:
        """What the user's step does with one, two and both micro-batches (see `stepping`)."""
        return steps(self, micro_batches(self.brief))

    @fact
    def is_fresh(self) -> bool | None:
        """Whether its weights were drawn and never trained; None: nothing tells.

        Training moves the gains of norms away from one another, and no usual scheme draws them.
        """
        record = self.seen.record
        gains = [n.weight for n in record.norms if n.weight is not None and n.weight.numel() > 1]
        shifts = [n.bias for n in record.norms if n.bias is not None and n.bias.numel() > 1]
        if not gains:
            return None
        values = [*gains, *shifts]
        return all(bool((each == each.flatten()[0]).all()) for each in values)

    def must_take_gradients(self) -> None:
        """Go on only with a model that can be trained.

        Raises:
            NotApplicable: some of its weights are int8: it was made for use, not for training.
        """
        if names := quantised(self.module):
            raise NotApplicable(
                f"{len(names)} layers ({names[0]} …) hold int8 weights, which take no gradient"
            )

    def must_be_fresh(self) -> None:
        """Go on only with weights as they were drawn.

        Raises:
            Skip: nothing tells whether they are; `NotApplicable` where they were trained.
        """
        self._must_be(True, "the model is trained: its weights are what it learned")

    def must_be_trained(self) -> None:
        """Go on only with weights that were trained.

        Raises:
            Skip: nothing tells whether they are; `NotApplicable` where they are as drawn.
        """
        self._must_be(False, "the model is fresh: nothing was learned yet")

    def _must_be(self, fresh: bool, otherwise: str) -> None:
        if self.is_fresh is None:
            raise Skip("nothing tells whether the model is trained")
        if self.is_fresh is not fresh:
            raise NotApplicable(otherwise)


def _wrapped(case: Case) -> Patient:
    if case.module is case.patient.module:
        return case.patient
    return replace(case.patient, module=case.module)
