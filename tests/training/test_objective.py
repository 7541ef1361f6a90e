import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.training import cross_entropy
from gnomon.training.cross_entropy import paired_cross_entropy, smoothed_cross_entropy
from gnomon.training.objective import Objective, ObjectiveConfig
from two_times_rule import assert_two_times

PAD, BOS, EOS = 0, 2, 3


def by_definition(logits: torch.Tensor, labels: torch.Tensor, alpha: float) -> torch.Tensor:
    """Cross-entropy against (1-α)·onehot + α/V, written out, in float64."""
    logits = logits.double()
    V = logits.shape[1]
    q = torch.full_like(logits, alpha / V)
    q[torch.arange(len(labels)), labels] += 1 - alpha
    log_probs = logits - logits.exp().sum(dim=1, keepdim=True).log()
    return -(q * log_probs).sum()


@given(
    num_rows=st.integers(0, 9),
    vocab=st.integers(2, 12),
    alpha=st.sampled_from([0.0, 0.1, 0.5]),
    seed=st.integers(0, 1000),
    chunk=st.integers(1, 40),
)
@settings(max_examples=60, deadline=None)
def test_loss_and_gradient_equal_the_definition(num_rows, vocab, alpha, seed, chunk):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(num_rows, vocab, generator=generator) * 3
    labels = torch.randint(0, vocab, (num_rows,), generator=generator)
    ours = logits.clone().requires_grad_()
    oracle = logits.clone().double().requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_entropy, "_CHUNK_CPU", chunk)
        loss, nll = smoothed_cross_entropy(ours, labels, alpha)
        (loss * 0.7).backward()
    expected = by_definition(oracle, labels, alpha)
    (expected * 0.7).backward()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(
        nll.double(), by_definition(oracle.detach(), labels, 0.0), rtol=1e-6, atol=1e-5
    )
    torch.testing.assert_close(ours.grad.double(), oracle.grad, rtol=1e-5, atol=1e-6)
    assert not nll.requires_grad


def test_equals_torch_cross_entropy_at_real_size():
    torch.manual_seed(0)
    logits = (torch.randn(300, 8000) * 2).requires_grad_()
    labels = torch.randint(0, 8000, (300,))
    loss, _ = smoothed_cross_entropy(logits, labels, 0.1)
    (ours,) = torch.autograd.grad(loss, logits)
    theirs = torch.nn.functional.cross_entropy(logits, labels, label_smoothing=0.1, reduction="sum")
    (expected,) = torch.autograd.grad(theirs, logits)
    torch.testing.assert_close(loss, theirs, rtol=1e-6, atol=0)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-7)


def test_huge_logits_do_not_overflow():
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    loss, nll = smoothed_cross_entropy(logits, torch.tensor([0]), 0.1)
    loss.backward()
    assert nll.item() == 0
    assert math.isfinite(loss.item())
    assert logits.grad.isfinite().all()


def test_bf16_logits_are_summed_in_fp32():
    torch.manual_seed(0)
    logits = (torch.randn(500, 100) * 2).bfloat16().requires_grad_()
    labels = torch.randint(0, 100, (500,))
    loss, nll = smoothed_cross_entropy(logits, labels, 0.1)
    loss.backward()
    assert loss.dtype == nll.dtype == torch.float32
    expected = by_definition(logits.detach(), labels, 0.1)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)
    assert logits.grad.dtype == torch.bfloat16


def r_drop_by_definition(logits, labels, label_smoothing, r_drop):
    """Half of L_NLL + α·L_KL of the paper, by PyTorch's own functions in the logits' dtype."""
    functional = torch.nn.functional
    first, second = logits.split(len(labels))
    nll = sum(
        functional.cross_entropy(part, labels, label_smoothing=label_smoothing, reduction="sum")
        for part in (first, second)
    )
    p, q = first.log_softmax(-1), second.log_softmax(-1)
    kl = functional.kl_div(q, p, log_target=True, reduction="sum")  # KL(P₁‖P₂)
    kl = kl + functional.kl_div(p, q, log_target=True, reduction="sum")
    return (nll + r_drop * kl / 2) / 2


@given(
    num_rows=st.integers(0, 7),
    vocab=st.integers(2, 12),
    smoothing=st.sampled_from([0.0, 0.1]),
    r_drop=st.sampled_from([0.5, 5.0]),
    seed=st.integers(0, 1000),
    chunk=st.integers(1, 40),
)
@settings(max_examples=60, deadline=None)
def test_r_drop_equals_the_papers_loss(num_rows, vocab, smoothing, r_drop, seed, chunk):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(2 * num_rows, vocab, generator=generator, dtype=torch.float64) * 3
    labels = torch.randint(0, vocab, (num_rows,), generator=generator)
    ours, oracle = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_entropy, "_CHUNK_CPU", chunk)
        loss, nll = paired_cross_entropy(ours, labels, smoothing, r_drop)
        (loss * 0.7).backward()
    if num_rows == 0:
        assert loss == nll == 0
        return
    expected = r_drop_by_definition(oracle, labels, smoothing, r_drop)
    (expected * 0.7).backward()
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.grad, oracle.grad, rtol=1e-10, atol=1e-12)
    first, second = logits.split(num_rows)
    mean = (by_definition(first, labels, 0.0) + by_definition(second, labels, 0.0)) / 2
    torch.testing.assert_close(nll, mean, rtol=1e-12, atol=1e-12)


def test_r_drop_passes_gradcheck():
    torch.manual_seed(0)
    logits = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 4, 2])
    assert torch.autograd.gradcheck(
        lambda z: paired_cross_entropy(z, labels, 0.1, 5.0)[0], (logits,)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("apart", [0.03, 1.0])
def test_r_drop_is_as_exact_as_plain_pytorch(dtype, apart):
    """At real size, for passes that nearly agree (late in a training) and that do not (early)."""
    torch.manual_seed(0)
    base = torch.randn(150, 8000) * 2
    logits = torch.cat([base, base + apart * torch.randn(150, 8000)]).to(dtype)
    labels = torch.randint(0, 8000, (150,))

    def loss_and_gradient(function, logits):
        logits = logits.clone().requires_grad_()
        loss = function(logits, labels, 0.1, 5.0)
        return loss.detach(), torch.autograd.grad(loss, logits)[0]

    ours = loss_and_gradient(lambda *given: paired_cross_entropy(*given)[0], logits)
    # Plain PyTorch under autocast: the loss in fp32 from logits in bf16.
    plain = loss_and_gradient(lambda z, *rest: r_drop_by_definition(z.float(), *rest), logits)
    exact = loss_and_gradient(r_drop_by_definition, logits.double())
    assert_two_times(ours[0], plain[0], exact[0], "loss")
    assert_two_times(ours[1], plain[1], exact[1], "gradient")


def test_r_drop_without_difference_is_the_plain_loss():
    torch.manual_seed(0)
    logits = torch.randn(4, 9, requires_grad=True)
    labels = torch.tensor([1, 2, 3, 8])
    plain, plain_nll = smoothed_cross_entropy(logits, labels, 0.1)
    paired, paired_nll = paired_cross_entropy(logits.repeat(2, 1), labels, 0.1, 5.0)
    torch.testing.assert_close(paired, plain)
    torch.testing.assert_close(paired_nll, plain_nll)


def test_r_drop_asks_for_two_passes_in_one_batch_and_counts_tokens_once():
    target = make_target([2, 4], width=7)
    objective = Objective(ObjectiveConfig(r_drop=5.0), pad_id=PAD)
    seen = {}

    def predict(inputs, keep):
        seen.update(inputs=inputs, keep=keep)
        return torch.zeros(int(keep.sum()), 12)

    sums = objective(target, predict, count_correct=True)
    assert objective.num_passes == 2
    assert seen["inputs"].equal(torch.cat([target[:, :-1]] * 2))
    assert seen["keep"].sum(dim=1).tolist() == [3, 5, 3, 5]
    assert sums.num_tokens == 8
    assert sums.nll.item() == pytest.approx(8 * math.log(12))
    assert sums.num_correct.item() == 0


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_impossible_r_drop_is_named(value):
    (problem,) = ObjectiveConfig(r_drop=value).problems()
    assert "r_drop" in problem
    assert str(value) in problem


def make_target(lengths, width, seed=0, vocab=12):
    generator = torch.Generator().manual_seed(seed)
    target = torch.full((len(lengths), width), PAD)
    for row, length in enumerate(lengths):
        target[row, 0] = BOS
        target[row, 1 : length + 1] = torch.randint(4, vocab, (length,), generator=generator)
        target[row, length + 1] = EOS
    return target


def test_inputs_are_the_target_shifted_right_and_padding_is_left_out():
    target = make_target([2, 4], width=7)
    seen = {}

    def predict(inputs, keep):
        seen.update(inputs=inputs, keep=keep)
        return torch.zeros(int(keep.sum()), 12)

    objective = Objective(ObjectiveConfig(), pad_id=PAD)
    sums = objective(target, predict, count_correct=True)
    assert seen["inputs"].equal(target[:, :-1])
    assert seen["keep"].sum(dim=1).tolist() == [3, 5]  # tokens and EOS
    assert sums.num_tokens == objective.num_tokens(target) == 8
    # Even logits: every row costs ln V whatever the smoothing, and argmax says id 0: never right.
    assert sums.nll.item() == pytest.approx(8 * math.log(12))
    assert sums.loss.item() == pytest.approx(8 * math.log(12))
    assert sums.num_correct.item() == 0


def test_more_padding_changes_nothing():
    objective = Objective(ObjectiveConfig(), pad_id=PAD)
    table = torch.randn(12, 12, generator=torch.Generator().manual_seed(3))

    def predict(inputs, keep):
        return table[inputs[keep]]

    narrow = objective(make_target([2, 4], width=6), predict, count_correct=True)
    wide = objective(make_target([2, 4], width=20), predict, count_correct=True)
    assert narrow.loss.equal(wide.loss)
    assert narrow.num_tokens == wide.num_tokens
    assert narrow.num_correct.equal(wide.num_correct)


def test_a_perfect_model_is_all_correct_and_smoothing_still_costs():
    target = make_target([3], width=5)
    labels = target[:, 1:]

    def predict(inputs, keep):
        return torch.nn.functional.one_hot(labels[keep], 12) * 30.0

    sums = Objective(ObjectiveConfig(label_smoothing=0.1), pad_id=PAD)(
        target, predict, count_correct=True
    )
    assert sums.num_correct.item() == sums.num_tokens == 4
    assert sums.nll.item() < 1e-6 < sums.loss.item()


@pytest.mark.parametrize("value", [-0.1, 1.0, float("nan")])
def test_impossible_smoothing_is_named(value):
    (problem,) = ObjectiveConfig(label_smoothing=value).problems()
    assert "label_smoothing" in problem
    assert str(value) in problem
