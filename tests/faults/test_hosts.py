"""Every host runs, trains and decodes; exchanging its attention for the same changes nothing."""

from __future__ import annotations

import pytest
import torch
from benchmarks.faults.host import Attend, Call, Host, part
from benchmarks.faults.hosts import development, held_out_hosts
from torch import Tensor

HOSTS = {**development(), **held_out_hosts()}


@pytest.fixture(params=HOSTS, scope="module")
def host(request: pytest.FixtureRequest) -> Host:
    return HOSTS[request.param]


def same(call: Call, attend: Attend) -> Tensor:
    return attend(call)


def test_it_runs_and_learns(host: Host) -> None:
    patient = host.patient()
    assert patient.module is not None and patient.loss is not None and patient.step is not None
    before = patient.loss(patient.module, patient.batch).item()
    for _ in range(3):
        patient.step([patient.batch])
    assert patient.loss(patient.module, patient.batch).item() < before


def test_exchanged_attention_is_the_same_attention(host: Host) -> None:
    module = host.module(0)
    batch = host.make_batch(0)
    with torch.no_grad():
        before = host.predict(module, batch).logits
        for site in host.sites(module):
            host.reroute(module, site, same)
        after = host.predict(module, batch).logits
    assert torch.allclose(before, after, atol=1e-5)


def test_exchanged_attention_is_called_with_what_the_host_attends_with(host: Host) -> None:
    module, batch = host.module(0), host.make_batch(0)
    seen: list[Call] = []

    def look(call: Call, attend: Attend) -> Tensor:
        seen.append(call)
        return attend(call)

    for site in host.sites(module):
        host.reroute(module, site, look)
    with torch.no_grad():
        host.predict(module, batch)
    assert {call.site for call in seen} == set(host.sites(module))
    for call in seen:
        B, _, T, _ = call.query.shape
        S = call.key.shape[2]
        assert call.keep.dtype == torch.bool
        assert call.keep.shape[0] in (1, B) and call.keep.shape[2:] == (T, S)
        if call.site.role == "decoder":
            assert not bool(call.keep.triu(1).any())
        elif "padding" in host.traits and not host.held_out:
            hidden = (batch[host.source] == 0)[:, None, None, :]
            assert not bool((call.keep & hidden).any())


def test_the_parts_it_names_are_there(host: Host) -> None:
    module = host.module(0)
    anatomy = host.anatomy
    layers = [*anatomy.layers, *anatomy.encoder_layers]
    names = [anatomy.embedding, anatomy.output, *anatomy.positions]
    for layer in layers:
        names += [layer.name, *layer.norms, layer.up, layer.down]
        names += [layer.query, layer.key, layer.out]
    for name in names:
        part(module, name)


def test_it_decodes_alone_as_in_a_batch_and_with_one_beam(host: Host) -> None:
    if host.decoding is None:
        pytest.skip("an encoder, or a host that is not decoded from")
    patient = host.patient(0, "sharp")
    module, batch = patient.module, patient.batch
    assert patient.generate is not None and patient.beam_generate is not None
    assert isinstance(batch, dict) and module is not None
    together = patient.generate(module, batch, 5)
    assert torch.equal(together, patient.beam_generate(module, batch, 5, 1))
    for row in range(len(together)):
        alone = {key: value[row : row + 1] for key, value in batch.items()}
        assert torch.equal(together[row : row + 1], patient.generate(module, alone, 5))
