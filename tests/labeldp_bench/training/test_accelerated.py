"""Compiled and recorded steps are the eager one, and are compiled once for all runs."""

import shutil
from functools import partial

import pytest
import torch
from torch.optim import SGD, Adam

from labeldp.mechanisms import NoPrivacy
from labeldp_bench.models.convolutional import Airbench
from labeldp_bench.models.resnets import ResNet
from labeldp_bench.training import network_fit
from labeldp_bench.training.augment import Flip, Mixup
from labeldp_bench.training.network_fit import WARM_UP, accelerated, compilation_notes
from labeldp_bench.training.schedules import WarmupLinear
from tests.training import CPU, train

EPOCHS, WHOLE = 3, 4
OPTIMIZERS = {
    "sgd": partial(SGD, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adam": partial(Adam, lr=0.01),
}
needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="needs a C++ compiler")


def outcome(seed=0, size=25 * WHOLE + 10, loss="plain", session=(), **recipe):
    """Returns weights and reports after epochs of whole batches and a shorter one."""
    session = dict(session) | {"seed": seed}
    classifier, epochs = train(size, mechanism=NoPrivacy(), loss=loss, session=session, **recipe)
    told = [(epoch.loss, epoch.released_hits, epoch.lr) for epoch in epochs]
    return classifier.network.state_dict(), told


def recordable(optimizer, captures=True, say=lambda _: None, notes=None, **recipe):
    mixing = {"augment": [Flip()], "mixup": Mixup(1.0), "schedule": WarmupLinear(0.3)}
    session = {"captures": captures, "say": say, "notes": {} if notes is None else notes}
    recipe |= mixing | {"epochs": EPOCHS, "optimizer": OPTIMIZERS[optimizer]}
    return outcome(session=session, **recipe)


def same(weights, others):
    return all(torch.allclose(weights[name], others[name], atol=1e-5) for name in others)


@pytest.fixture
def recorded(monkeypatch):
    """Records on the CPU: a graph is its work, done again at each replay; what was recorded."""
    seen = []

    def record(work):
        seen.append(0)

        def replay():
            seen[-1] += 1
            work()

        return replay

    monkeypatch.setattr(network_fit, "KINDS", ("cpu",))
    monkeypatch.setattr(network_fit, "record", record)
    return seen


@pytest.fixture
def compile_by(monkeypatch):
    """Compiles on the CPU by a backend of the test."""
    yield lambda backend: monkeypatch.setattr(network_fit, "BACKENDS", {"cpu": backend})
    network_fit._compiled.cache_clear()
    torch._dynamo.reset()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("views", [1, 2])
def test_a_recorded_step_learns_what_an_ordinary_one_does(optimizer, views, recorded):
    # The card would learn the batch of the recording for ever, or at the rate it had then.
    notes, notes_there = {}, {}
    ordinary, told = recordable(optimizer, captures=False, views=views, notes=notes)
    assert recorded == [] and "captured" not in notes
    weights, told_there = recordable(optimizer, views=views, notes=notes_there)
    assert notes_there["captured"] is True
    assert recorded == [EPOCHS * WHOLE - WARM_UP]
    assert same(weights, ordinary)
    for epoch, there in zip(told, told_there, strict=True):
        assert there == pytest.approx(epoch, abs=1e-5) and isinstance(there[2], float)


def test_images_of_another_size_are_recorded_again(recorded):
    # The card would learn the small images of the first recording for ever, or stop.
    growing = {"resolution": [[0.34, 0.5]], "network": partial(ResNet, width=4)}
    ordinary, _ = recordable("sgd", captures=False, **growing)
    weights, _ = recordable("sgd", **growing)
    assert recorded == [WHOLE - WARM_UP, (EPOCHS - 1) * WHOLE - WARM_UP]
    assert same(weights, ordinary)


def test_a_step_that_cannot_be_recorded_is_said_once_and_goes_on(recorded, monkeypatch):
    # A card would stop, or train nothing, over a gain of some percent.
    def fails(work):
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    ordinary, _ = recordable("adam", captures=False)
    monkeypatch.setattr(network_fit, "record", fails)
    said, notes = [], {}
    weights, _ = recordable("adam", say=said.append, notes=notes)
    assert "captured" not in notes and same(weights, ordinary)
    (line,) = [line for line in said if "recording the step failed" in line]
    assert "(operation not permitted when stream is capturing)" in line


def test_nothing_is_recorded_on_a_cpu(monkeypatch):
    monkeypatch.setattr(network_fit, "record", lambda work: pytest.fail("recorded"))
    recordable("sgd")


def test_compiled_steps_equal_eager_ones_and_are_compiled_once(compile_by, monkeypatch):
    # A GPU would train something else; or every cell of a table would pay minutes of compiling.
    from torch._dynamo.backends.debugging import aot_eager

    graphs = []
    eager, told = zip(*(outcome(seed) for seed in (0, 1)), strict=True)
    compile_by(lambda graph, inputs: graphs.append(graph) or aot_eager(graph, inputs))
    for seed in (0, 1):
        weights, told_there = outcome(seed)
        assert same(weights, eager[seed])
        assert [epoch[0] for epoch in told_there] == pytest.approx(
            [epoch[0] for epoch in told[seed]], abs=1e-5
        )
    outcome(2, 111)  # a stage of a learner that leaves out some examples
    assert len(graphs) == 1
    outcome(2, loss="bce")
    assert len(graphs) == 2
    outcome(2, views=2)
    assert len(graphs) == 3


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_compiling_that_fails_goes_on_without_and_is_noted(where, compile_by):
    # A GPU machine without a compiler would train nothing, or several times as long in silence.
    from torch._dynamo.backends.common import aot_autograd

    tried, said = [], []

    def fails(graph, inputs):
        tried.append(graph)
        raise RuntimeError("no compiler here")

    assert compilation_notes(CPU) == {}
    eager, _ = outcome()
    passes = aot_autograd(fw_compiler=lambda graph, inputs: graph, bw_compiler=fails)
    compile_by(fails if where == "forward" else passes)
    torch._dynamo.utils.counters.clear()
    weights, _ = outcome(session={"say": said.append})
    assert tried and same(weights, eager)
    notes = compilation_notes(CPU)
    assert notes["failed_graphs"] >= 1 and notes["compile_seconds"] >= 0
    assert "compiling failed" in said[-1]


def generated(work, compile_by, monkeypatch):
    """Returns what the inductor makes of work; it must not fall back to eager steps."""
    compile_by("inductor")
    step = accelerated(work, CPU)
    monkeypatch.setattr(torch._dynamo.config, "suppress_errors", False)
    return step


@needs_compiler
def test_generated_code_drops_what_the_eager_step_drops(compile_by, monkeypatch):
    # The last, short batch of an epoch, which is not compiled, would draw by another law.
    dropout = torch.nn.Dropout(0.5)

    def half(weights):
        return dropout(weights).sum()

    gradients = []
    for step in (half, generated(half, compile_by, monkeypatch)):
        weights = torch.ones(100, requires_grad=True)
        torch.manual_seed(0)
        step(weights).backward()
        gradients.append(weights.grad)
    assert torch.equal(*gradients)
    assert 20 < int((gradients[0] == 2).sum()) < 80 and set(gradients[0].tolist()) == {0, 2}


@needs_compiler
def test_a_global_maximum_has_a_gradient_in_generated_code(compile_by, monkeypatch):
    """By `amax` it was nan in bf16: no value equals the rounded maximum, so 0 / 0."""
    torch.manual_seed(0)
    network = Airbench(3, (16, 16, 1), widths=(4, 4, 4)).train()
    network.groups = network.groups[:1]  # one shows it, and compiles sooner

    def scores(images):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return network(images).float().square().sum()

    generated(scores, compile_by, monkeypatch)(torch.rand(8, 1, 16, 16)).backward()
    assert all(each.grad.isfinite().all() for each in network.parameters())
