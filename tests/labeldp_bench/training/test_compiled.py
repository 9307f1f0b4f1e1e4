"""The compiled step is the eager one, and is compiled once for all runs of a process."""

import functools
import shutil

import pytest
import torch

from labeldp.losses import loss_named
from labeldp.supervision import Supervision
from labeldp_bench.interfaces import Session
from labeldp_bench.models import CNN, Airbench
from labeldp_bench.models.networks import NetworkModel
from labeldp_bench.training import network_fit as compiled
from labeldp_bench.training.fit import Fit
from labeldp_bench.training.network_fit import compilation_notes
from labeldp_bench.training.trainer import Trainer

CPU = torch.device("cpu")


def fit(
    seed: int, loss: str = "plain", count: int = 110, views: int = 1, say=lambda _: None
) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Returns weights and losses after two epochs, the last step of each on a shorter batch."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (count, 8, 8, 1), dtype=torch.uint8, generator=generator)
    labels = torch.randint(3, (count,), generator=generator)
    one_hot = torch.nn.functional.one_hot(labels, 3)
    targets = labels if loss == "plain" else one_hot.float()
    supervision = Supervision(torch.arange(count), targets, one_hot.bool(), loss_named(loss))
    network = functools.partial(CNN, widths=[4, 4], hidden=8)
    adam = functools.partial(torch.optim.Adam, lr=0.001)
    trainer = Trainer(2, 25, adam, selection="last", precision="float32", views=views)
    losses: list[float] = []
    session = Session(seed, CPU, lambda epoch, _: losses.append(epoch.loss), say)
    classifier = NetworkModel(network, trainer).fit(images, supervision, session)
    return classifier.network.state_dict(), losses


@pytest.fixture
def graphs(monkeypatch):
    """Compiles on the CPU, with autograd traced ahead; what was compiled so far."""
    from torch._dynamo.backends.debugging import aot_eager

    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return aot_eager(graph, inputs)

    monkeypatch.setattr(compiled, "BACKENDS", {"cpu": backend})
    yield seen
    compiled._compiled.cache_clear()
    torch._dynamo.reset()


def test_a_record_says_what_was_compiled_and_what_failed(monkeypatch):
    # A compile that fails makes a run several times as slow without a word.
    def broken(graph, inputs):
        raise RuntimeError("no C compiler")

    assert compilation_notes(CPU) == {}
    monkeypatch.setattr(compiled, "BACKENDS", {"cpu": broken})
    torch._dynamo.utils.counters.clear()
    said: list[str] = []
    fit(0, say=said.append)
    notes = compilation_notes(CPU)
    assert notes["failed_graphs"] >= 1 and notes["compile_seconds"] >= 0
    assert said[-1].startswith("  compiling failed")
    compiled._compiled.cache_clear()
    torch._dynamo.reset()


def test_compiled_steps_equal_eager_ones_and_are_compiled_once(graphs, monkeypatch):
    # A GPU would train something else; or every cell of a table would pay minutes of compiling.
    for seed in (0, 1):
        weights, losses = fit(seed)
        assert len(graphs) == 1
        with monkeypatch.context() as patch:
            patch.setattr(compiled, "BACKENDS", {})
            eager, eager_losses = fit(seed)
        assert losses == pytest.approx(eager_losses, abs=1e-5)
        for name, values in eager.items():
            assert torch.allclose(weights[name], values, atol=1e-5), name
    for count in (111, 120):  # stages of a learner that leave out some examples
        fit(2, count=count)
    assert len(graphs) == 1
    fit(2, "bce")
    assert len(graphs) == 2
    fit(2, views=2)
    assert len(graphs) == 3


def test_kernels_are_searched_for_whole_batches_alone_in_both_directions(monkeypatch):
    # Each number of examples would cost a card seconds in every epoch's last step.
    seen = []
    plain = Fit.descend

    def descend(fit, loss):
        seen.append(torch.backends.cudnn.benchmark)
        plain(fit, loss)

    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    monkeypatch.setattr(Fit, "descend", descend)
    fit(0)
    assert seen == 2 * [True, True, True, True, False]


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_compiling_that_fails_goes_on_without(where, monkeypatch):
    # A GPU machine without a compiler would train nothing.
    from torch._dynamo.backends.common import aot_autograd

    tried = []

    def fails(graph, inputs):
        tried.append(graph)
        raise RuntimeError("no compiler here")

    passes = aot_autograd(fw_compiler=lambda graph, inputs: graph, bw_compiler=fails)
    broken = fails if where == "forward" else passes

    eager, _ = fit(0)
    monkeypatch.setattr(compiled, "BACKENDS", {"cpu": broken})
    weights, _ = fit(0)
    compiled._compiled.cache_clear()
    torch._dynamo.reset()
    assert tried
    assert all(torch.allclose(weights[name], values, atol=1e-5) for name, values in eager.items())


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_generated_code_drops_what_the_eager_step_drops(monkeypatch):
    # The last, short batch of an epoch, which is not compiled, would draw by another law.
    dropout = torch.nn.Dropout(0.5)

    def half(weights):
        return dropout(weights).sum()

    monkeypatch.setattr(compiled, "BACKENDS", {"cpu": "inductor"})
    generated = compiled.accelerated(half, CPU)
    monkeypatch.setattr(torch._dynamo.config, "suppress_errors", False)
    gradients = []
    for step in (half, generated):
        weights = torch.ones(100, requires_grad=True)
        torch.manual_seed(0)
        step(weights).backward()
        gradients.append(weights.grad)
    compiled._compiled.cache_clear()
    torch._dynamo.reset()
    assert torch.equal(*gradients)
    assert 20 < int((gradients[0] == 2).sum()) < 80 and set(gradients[0].tolist()) == {0, 2}


@pytest.mark.skipif(not shutil.which("g++"), reason="the inductor needs a C++ compiler")
def test_a_global_maximum_has_a_gradient_in_generated_code(monkeypatch):
    """By `amax` it was nan in bf16: no value equals the rounded maximum, so 0 / 0."""
    torch.manual_seed(0)
    network = Airbench(3, (16, 16, 1), widths=(4, 4, 4)).train()

    def scores(images):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return network(images).float().square().sum()

    monkeypatch.setattr(compiled, "BACKENDS", {"cpu": "inductor"})
    generated = compiled.accelerated(scores, CPU)
    monkeypatch.setattr(torch._dynamo.config, "suppress_errors", False)
    generated(torch.rand(8, 1, 16, 16)).backward()
    compiled._compiled.cache_clear()
    torch._dynamo.reset()
    assert all(each.grad.isfinite().all() for each in network.parameters())
