"""One OpenMP thread per pytest worker, set before torch is imported; a small trained run."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import hypothesis
import pytest

from digits import DIGITS_RECIPE, TrainedRun, write_digits

# A busy machine is no failure: pytest's own timeout ends what hangs.
hypothesis.settings.register_profile("gnomon", deadline=None)
hypothesis.settings.load_profile("gnomon")


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    """Trained once per worker; tests only read it."""
    from gnomon import api

    folder = tmp_path_factory.mktemp("trained")
    data = write_digits(folder)
    recipe = folder / "digits.toml"
    recipe.write_text(DIGITS_RECIPE)
    training = api.train(recipe, data=data, run=folder / "runs" / "digits")
    sources = [line.split("\t")[0] for line in data.read_text().splitlines()]
    return TrainedRun(training.run, recipe, data, sources)
