"""batch-differs: a batch of requests is answered as each of them alone."""

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.checks.decoding.example import CACHED_MODEL
from gnomon.doctor.facts.decoding.generation import (
    apart_from_single,
    first,
    generate,
    num_new,
    prompts_of,
)
from gnomon.doctor.finding import Outcome, Skip, failure, passed

_FAULTY = CACHED_MODEL.replace(
    "ids = module(ids, cache)[:, -1:].argmax(-1)",
    "ids = module(ids, cache)[:, -1:].mean(0, keepdim=True).argmax(-1).expand(len(ids), -1)",
)


@check(
    code="batch-differs",
    title="A batch of requests is answered as each alone",
    fault="A batch of requests is not answered as each alone",
    cost="probe",
    cause="A request reads what is its neighbours': padding, mask, positions or cache.",
    mend="Keep mask, positions and end of each row apart; compare generate(batch) with "
    "generate(batch[i:i+1]) in a test.",
    reference="OpenNMT-py #137, #502, #994; fairseq #427; joeynmt #50; transformers #48161",
    symptoms=("padding", "gibberish", "deployed"),
    example=_FAULTY,
    mended=CACHED_MODEL,
)
def batch_differs(case: Case) -> Outcome:
    """The same request must be answered the same, whatever else is in the batch.

    Requests are continued together and then alone, without padding. An encoder-decoder's sources
    stay padded as they are; prompts that are padded at the right in use are tried so, too.
    """
    if case.small.num_rows() < 2:
        raise Skip("the batch has one row, and the model does not take more")
    last = case.small.num_rows() - 1
    found = [("", apart_from_single(case, first(case), [0, last]))]
    ragged = _padded_prompts(case)
    if ragged is not None:
        made = generate(case, ragged, num_new(case))
        found.append((" padded at the right", apart_from_single(case, made, [last])))
    how, (moved, row, step) = max(found, key=lambda each: each[1][0])
    if moved <= case.tolerance:
        return passed(
            f"requests together and alone differ by {moved:.1e} of their spread", moved=moved
        )
    return failure(
        f"request {row}{how} is answered in a batch by scores {moved:.2g} of their spread from "
        f"those alone, at step {step} (rounding: {case.tolerance:.0e})",
        cause="Padding of the prompts counts or is seen." if how else "",
        moved=moved,
        step=step,
    )


def _padded_prompts(case: Case) -> Call | None:
    """Prompts of several lengths, where they are padded at the right in use."""
    used = case.patient.padding_side == "right" and case.patient.generate is not None
    if case.small.read == "target" or not used or not case.small.streams["source"].hides_padding:
        return None
    return prompts_of(case, num_new(case), "right")
