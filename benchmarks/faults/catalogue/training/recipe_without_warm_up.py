"""A recipe of the 2017 model, post-norm, with one step of warm-up."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.faults.fault import on
from benchmarks.faults.hosts.bare import BareHost

from gnomon.doctor.patient import Patient

ITEM = "training: recipes; schedule without warm-up where it is needed"
EXPECTED = {"recipe-*", "warmup", "post-norm-warmup"}
HOSTS = on("recipe")
NOT_ON = "hosts without a recipe"


def inject(patient: Patient, host: BareHost) -> Patient:
    schedule = replace(patient.recipe.schedule, warmup_steps=1)
    return replace(patient, recipe=replace(patient.recipe, schedule=schedule))
