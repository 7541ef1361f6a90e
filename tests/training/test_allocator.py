import multiprocessing
import platform
import resource

import pytest
import torch

from gnomon.training.allocator import keep_freed_memory


def page_faults_of_reusing(mbytes, results):
    def count():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.empty(mbytes * 2**18).fill_(1.0)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    count()
    by_default = count()
    assert keep_freed_memory()
    for _ in range(5):
        count()
    results.put((by_default, count()))


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only the GNU C library has the switch"
)
def test_large_tensors_are_not_mapped_anew():
    # The switch holds for a whole process, so the child must not inherit one that is already set.
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=page_faults_of_reusing, args=(80, results))
    child.start()
    by_default, kept = results.get(timeout=60)
    child.join()
    assert kept < by_default / 10
