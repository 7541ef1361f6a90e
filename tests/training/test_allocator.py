import multiprocessing
import os
import platform
import resource
import subprocess
import sys

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


def test_fewer_kernels_are_kept_unless_the_environment_says_otherwise() -> None:
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    show = f"import os, gnomon.training; print(*(os.environ[name] for name in {names}))"
    clean = {name: value for name, value in os.environ.items() if name not in names}
    for given, expected in (({}, ["128", "128"]), ({names[1]: "7"}, ["128", "7"])):
        command = [sys.executable, "-c", show]
        done = subprocess.run(command, env=clean | given, capture_output=True, check=True)
        assert sorted(done.stdout.decode().split()) == expected
