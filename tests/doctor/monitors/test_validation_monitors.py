"""Sources ignored, outputs repeated or copied, free running: found when they last, not before."""

from gnomon.doctor.monitors.free_running import FreeRunning, token_f1
from gnomon.doctor.monitors.loss_spike import LossSpike
from gnomon.doctor.monitors.monitor import Sample
from gnomon.doctor.monitors.outputs import Outputs
from gnomon.doctor.monitors.source import Source

LINES = [f"line number {n}" for n in range(30)]
OTHERS = [f"Zeile Nummer {n}" for n in range(30)]


def codes(monitor, samples):
    found = [monitor.on_validation(n, sample) for n, sample in enumerate(samples)]
    return [seen.finding.code if seen.finding else None for seen in found]


def test_an_ignored_source_is_found_at_the_third_validation():
    same = Sample(nll=3.0, nll_of_shuffled=3.01)
    used = Sample(nll=3.0, nll_of_shuffled=3.5)
    assert codes(Source(), [same, same, used, same, same]) == [None] * 5
    assert codes(Source(), [same] * 3) == [None, None, "source-ignored"]


def test_repeated_outputs():
    stuck = Sample(LINES, OTHERS, ["das"] * 30)
    assert codes(Outputs(), [stuck] * 3) == [None, None, "repeated-outputs"]
    good = Sample(LINES, OTHERS, OTHERS)
    assert codes(Outputs(), [stuck, stuck, good, stuck]) == [None] * 4


def test_one_target_for_all_is_no_fault_when_the_references_have_it():
    assert codes(Outputs(), [Sample(LINES, ["yes"] * 30, ["yes"] * 30)] * 4) == [None] * 4


def test_copied_sources_unless_they_are_meant_to_be():
    assert codes(Outputs(), [Sample(LINES, OTHERS, LINES)] * 3)[-1] == "copied-sources"
    assert codes(Outputs(), [Sample(LINES, LINES, LINES)] * 3) == [None] * 3


def test_high_accuracy_with_useless_output():
    bad = Sample(LINES, OTHERS, ["x y z"] * 30, accuracy=0.97)
    assert codes(FreeRunning(), [bad]) == ["free-running"]
    assert codes(FreeRunning(), [Sample(LINES, OTHERS, OTHERS, accuracy=0.97)]) == [None]
    assert codes(FreeRunning(), [Sample(LINES, OTHERS, ["x"] * 30, accuracy=0.2)]) == [None]


def test_overlap_counts_words_and_the_characters_of_scripts_without_blanks():
    assert token_f1(["a b c"], ["a b d"]) == 2 * 2 / 6
    assert token_f1(["你好吗"], ["你好"]) == 2 * 2 / 5


def spikes(losses):
    monitor = LossSpike()
    seen = [monitor.on_loss(step, loss, 1e-3) for step, loss in enumerate(losses, 1)]
    return [step for step, each in enumerate(seen, 1) if each and each.finding]


def test_a_loss_that_jumps_and_stays_is_found_once():
    falling = [5 - 0.02 * n + 0.1 * (n % 5) for n in range(100)]
    found = spikes([*falling, *[6.0] * 40])
    assert len(found) == 1
    assert 100 < found[0] < 112


def test_falling_noisy_and_single_bad_batches_are_no_spikes():
    assert spikes([8 / (1 + 0.05 * n) for n in range(300)]) == []
    assert spikes([3 + 0.5 * ((n * 7919) % 13 - 6) / 6 for n in range(300)]) == []
    assert spikes([3.0 if n % 50 else 9.0 for n in range(300)]) == []
