"""A network's fit to targets; steps may be compiled, or replayed from a CUDA graph."""

import functools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim.swa_utils import AveragedModel

from labeldp.losses import Loss
from labeldp.supervision import Supervision
from labeldp.support.validate import InputError
from labeldp_bench.interfaces import Epoch, Session, State
from labeldp_bench.training.augment import Mixing
from labeldp_bench.training.fit import Fit, NetworkClassifier
from labeldp_bench.training.trainer import Trainer

BACKENDS = {"cuda": "inductor"}
"""Where steps are compiled, by kind of device; on a CPU a step took longer compiled than eager."""
# The inductor draws random numbers of its own. With this option it calls the eager kernels: dropout
# then draws from the stream that a checkpoint saves, as it does in a batch that is not compiled.
OPTIONS: dict[str, dict[str, Any]] = {"inductor": {"fallback_random": True}}
# Six losses, with and without mixup, several architectures. Torch's own limit is 8 graphs, after
# which it goes on uncompiled.
GRAPHS = 64


def accelerated(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """Returns `function`, compiled where the device's kind has a backend.

    Weights are arguments of the function, so that the next run, whatever its seed, mechanism or
    eps, finds the graph of its architecture, loss and batch size compiled. Where compiling fails
    torch says so and goes on without.
    """
    backend = BACKENDS.get(device.type)
    return function if backend is None else _compiled(function, backend)


@cache
def _compiled(function: Callable[..., Any], backend: Any) -> Callable[..., Any]:
    import torch._dynamo
    import torch._functorch.config as ahead_of_time

    torch._dynamo.config.recompile_limit = GRAPHS
    torch._dynamo.config.suppress_errors = True  # such as a machine without a C compiler
    # Otherwise the backward pass is compiled when it first runs, where no error is suppressed.
    if hasattr(ahead_of_time, "force_non_lazy_backward_lowering"):  # not in every version of torch
        ahead_of_time.force_non_lazy_backward_lowering = True
    options = OPTIONS.get(backend) if isinstance(backend, str) else None
    return torch.compile(function, backend=backend, options=options, dynamic=False)


@contextmanager
def kernel_search(searches: bool) -> Iterator[None]:
    """Lets cuDNN time its kernels for the sizes in the block, or take one by rule.

    The search takes seconds for each new batch size. It pays for the batches that come in every
    step, not for the last one of an epoch, whose size is another for each number of examples.
    """
    cudnn = torch.backends.cudnn
    kept = {"deterministic": cudnn.deterministic, "allow_tf32": cudnn.allow_tf32}
    with cudnn.flags(enabled=True, benchmark=searches and cudnn.benchmark, **kept):
        yield


def compilation_notes(device: torch.device) -> dict[str, float | int]:
    """Returns what this process compiled so far, for the record; empty where nothing is compiled.

    Returns:
        `compiled_graphs`: how many; `failed_graphs`: how often torch gave up and went on eager;
        `compile_seconds`: in all.
    """
    if device.type not in BACKENDS:
        return {}
    from torch._dynamo.utils import compilation_time_metrics, counters

    frames = counters["frames"]
    whole = compilation_time_metrics.get("_compile.compile_inner", [])
    return {
        "compiled_graphs": counters["stats"]["unique_graphs"],
        "failed_graphs": frames["total"] - frames["ok"],
        "compile_seconds": round(sum(whole), 1),
    }


KINDS = ("cuda",)
"""Kinds of devices that record steps."""
WARM_UP = 3
"""Ordinary steps before: they compile, choose kernels and make the optimizer's state."""


class CapturedStep:
    """A step of training that is recorded once, and from then on replayed.

    A replay reads and writes the memory of the recording: inputs are copied to where they were
    then, and the learning rate is a number on the GPU. Random numbers of the step, such as
    dropout's, go on from replay to replay, since torch registers the GPU's generator. Images of
    another size are recorded again. A step that cannot be recorded is said once, and runs as
    before.

    Source: torch's notes on CUDA graphs, whole-network capture.

    Args:
        learn: one step, of tensors whose shapes seldom change; reads nothing back from the GPU.
        optimizer: the one that `learn` uses; its rates are those of each replay.
        session: is told where recording fails; its notes say `captured` where it succeeds.
    """

    def __init__(
        self,
        learn: Callable[..., None],
        optimizer: torch.optim.Optimizer,
        session: Session,
    ) -> None:
        self.learn, self.optimizer, self.session = learn, optimizer, session
        self.ordinary_steps: float = WARM_UP
        self.replay: Callable[[], None] | None = None
        self.inputs: tuple[Tensor, ...] = ()
        self.rates: list[Tensor] = []

    def __call__(self, *inputs: Tensor) -> None:
        """Learns from one batch."""
        if self.replay is not None and inputs[0].shape != self.inputs[0].shape:
            self.replay, self.ordinary_steps = None, WARM_UP
        if self.replay is None and self.ordinary_steps == 0:
            self._record(inputs)
        if self.replay is None:
            self.ordinary_steps -= 1
            self.learn(*inputs)
            return
        for kept, given in zip(self.inputs, inputs, strict=True):
            kept.copy_(given)
        for rate, group in zip(self.rates, self.optimizer.param_groups, strict=True):
            rate.fill_(group["lr"])  # an argument of a kernel: no copy, no wait
        self.replay()

    def _record(self, inputs: tuple[Tensor, ...]) -> None:
        self.inputs = tuple(given.clone() for given in inputs)
        groups, device = self.optimizer.param_groups, inputs[0].device
        self.rates = [torch.tensor(group["lr"], device=device) for group in groups]
        before = [dict(group) for group in groups]
        for group, rate in zip(groups, self.rates, strict=True):
            group["lr"] = rate
            if "capturable" in group:
                group["capturable"] = True
        try:
            self.replay = record(lambda: self.learn(*self.inputs))
            self.session.notes["captured"] = True
        except RuntimeError as error:
            self.ordinary_steps = float("inf")
            reason = " ".join(str(error).split())[:100]
            self.session.say(f"  recording the step failed ({reason}), so training goes on without")
        for group, kept in zip(groups, before, strict=True):
            group.update(kept)  # ordinary steps, and checkpoints, have numbers


def record(work: Callable[[], None]) -> Callable[[], None]:
    """Returns what does `work` again on the GPU; records it without doing it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


class NetworkFit(Fit):
    """The fit of a network to supervision.

    Args:
        trainer: the recipe.
        classifier: a network on the session's device, trained in place.
        supervision: which examples to use, and what is known of their labels.
        session: seed, device, reports, checkpoint.

    Raises:
        InputError: the supervision lacks what the recipe needs.
    """

    def __init__(
        self,
        trainer: Trainer,
        classifier: NetworkClassifier,
        supervision: Supervision,
        session: Session,
    ) -> None:
        self.chooses_epoch = trainer.selection == "best_validation"
        if self.chooses_epoch and supervision.validate is None:
            raise InputError(
                "trainer.selection=best_validation needs validation labels, and this learner has "
                "none (use trainer.selection=last)"
            )
        super().__init__(classifier, trainer.optimizer, supervision.indices, session.checkpoint)
        self.trainer, self.session, self.supervision = trainer, session, supervision
        self.targets = supervision.targets.to(session.device)
        self.most_likely_labels = supervision.most_likely_labels.to(session.device)
        self.hits = torch.zeros((), device=session.device)
        network = classifier.network
        self.tensors = (dict(network.named_parameters()), dict(network.named_buffers()))
        self.whole: Callable[..., None] = functools.partial(
            self._learn, accelerated(objective, session.device)
        )
        if session.captures and session.device.type in KINDS:
            self.whole = CapturedStep(self.whole, self.optimizer, session)
        self.averaged: AveragedModel | None = None
        if trainer.average is not None:
            self.averaged = AveragedModel(
                network, multi_avg_fn=running_mean(trainer.average), use_buffers=True
            )
        self.best = BestEpoch()

    def begin_epoch(self) -> None:
        """Clears the sums of losses and hits."""
        super().begin_epoch()
        self.hits.zero_()

    def step(self, batch: Tensor, rows: Tensor, mixing: Mixing | None) -> None:
        """Learns from one batch; its loss counts each example once per view."""
        views = self.trainer.views
        # The last, short batch has a size of its own for every number of examples: compiling for
        # one step an epoch would take longer than the run.
        is_whole = len(rows) == self.trainer.batch_size * views
        learn = self.whole if is_whole else functools.partial(self._learn, objective)
        with kernel_search(is_whole):
            learn(batch, self.targets[rows], self.most_likely_labels[rows], *(mixing or ()))
        if self.averaged is not None:
            self.averaged.update_parameters(self.classifier.network)

    def _learn(
        self,
        evaluate: Callable[..., tuple[Tensor, Tensor]],
        batch: Tensor,
        targets: Tensor,
        most_likely_labels: Tensor,
        *mixed: Tensor,
    ) -> None:
        """Does a step with tensors alone, so that it can be recorded; `mixed` is a `Mixing`."""
        mixing, views = Mixing(*mixed) if mixed else None, self.trainer.views
        with self.classifier.autocast():
            of_network = *self.tensors, self.classifier.network
            losses, logits = evaluate(*of_network, batch, targets, self.supervision.loss, mixing)
        self.descend(losses.mean() * views)
        self.loss_sum += losses.detach().sum()
        chosen = logits.detach().argmax(1, keepdim=True)
        self.hits += most_likely_labels.gather(1, chosen).sum() / views

    def end_epoch(self, number: int, started: float, views: Iterable[list[Tensor]]) -> bool:
        """Reports the epoch, refines targets, saves; returns whether patience has ended."""
        self.number = number
        epoch = Epoch(
            number=number,
            total=self.trainer.epochs,
            loss=self.mean_loss(number),
            released_hits=float(self.hits) / len(self.indices),
            lr=self.optimizer.param_groups[0]["lr"],
            seconds=time.perf_counter() - started,
            num_examples=len(self.indices),
            is_scored=self.trainer.scores(number),
        )
        self.session.on_epoch(epoch, self._reported())
        supervision, stop = self.supervision, False
        if supervision.refine is not None:
            refined = supervision.refine(number, self._log_probabilities(views))
            self.targets = refined.to(self.session.device)
        if self.chooses_epoch and supervision.validate is not None:
            self.best.offer(number, supervision.validate(self.classifier), self.classifier.network)
            patience = self.trainer.patience
            stop = patience is not None and number - self.best.epoch >= patience
        if self.checkpoint is not None and not stop and number < self.trainer.epochs:
            self.checkpoint.after_epoch(self.state, finished=False)
        return stop

    def finish(self) -> None:
        """Takes the best epoch's weights, if the recipe asks for them, and saves."""
        if self.chooses_epoch:
            self.classifier.network.load_state_dict(self.best.weights)
            self.session.notes.update(
                best_epoch=self.best.epoch,
                validation_accuracy=self.best.score,
                epochs_run=self.number,
            )
        if self.averaged is not None:
            self.classifier.network.load_state_dict(self.averaged.module.state_dict())
        if self.checkpoint is not None:
            self.checkpoint.after_epoch(self.state, finished=True)

    def _reported(self) -> NetworkClassifier:
        """Returns the classifier that would result if training ended here."""
        if self.averaged is None:
            return self.classifier
        return replace(self.classifier, network=self.averaged.module)

    @torch.no_grad()
    def _log_probabilities(self, views: Iterable[list[Tensor]]) -> Tensor:
        """Returns the mean over its views of each example's log probabilities, float32 (n, K)."""
        network = self.classifier.network.eval()
        with self.classifier.autocast():
            means = [
                torch.stack([network(view).float().log_softmax(1) for view in part]).mean(0)
                for part in views
            ]
        return torch.cat(means)

    def state(self) -> State:
        """Returns what the fit needs to go on, for a checkpoint."""
        return super().state() | {
            "notes": dict(self.session.notes),
            "targets": None if self.supervision.refine is None else self.targets,
            "best": vars(self.best),
            "averaged": None if self.averaged is None else self.averaged.state_dict(),
        }

    def restore(self, saved: State) -> int:
        """Takes back what `state` returned; returns all epochs of a fit that had finished."""
        self.session.notes.update(saved["notes"])
        if saved.get("finished"):
            self.classifier.network.load_state_dict(saved["network"])
            return self.trainer.epochs
        done = super().restore(saved)
        if saved["targets"] is not None:
            self.targets = saved["targets"].to(self.session.device)
        self.best = BestEpoch(**saved["best"])
        if self.averaged is not None:
            self.averaged.load_state_dict(saved["averaged"])
        return done


Tensors = tuple[Tensor, ...] | list[Tensor]


def running_mean(keep: float) -> Callable[[Tensors, Tensors, Tensor | int], None]:
    """Returns the rule of a running mean of weights, for torch's `AveragedModel`.

    The first steps keep less, (1 + n) / (10 + n) after n of them: the mean would else be that of
    the random first weights for some 1 / (1 - keep) steps.

    Args:
        keep: share of the mean that stays at each step, in [0, 1).
    """

    def rule(means: Tensors, currents: Tensors, count: Tensor | int) -> None:
        done = torch.as_tensor(count, device=means[0].device)
        fresh = 1 - torch.clamp((1 + done) / (10 + done), max=keep)
        if not means[0].is_floating_point():  # counts of batches
            for mean, current in zip(means, currents, strict=True):
                mean.copy_(mean + fresh * (current - mean))
            return
        # All tensors in a few kernels: one by one they took a GPU longer than a step.
        changes = torch._foreach_sub(currents, means)
        torch._foreach_mul_(changes, fresh)
        torch._foreach_add_(means, changes)

    return rule


@dataclass
class BestEpoch:
    """The first epoch with the best validation score so far, and its weights."""

    epoch: int = 0
    score: float = -math.inf
    weights: dict[str, Tensor] = field(default_factory=dict)

    def offer(self, epoch: int, score: float, network: nn.Module) -> None:
        """Keeps an epoch and a copy of its weights if `score` is the best so far."""
        if score > self.score:
            self.epoch, self.score = epoch, score
            self.weights = {key: value.clone() for key, value in network.state_dict().items()}


def objective(
    parameters: Mapping[str, Tensor],
    buffers: Mapping[str, Tensor],
    network: nn.Module,
    images: Tensor,
    targets: Tensor,
    loss: Loss,
    mixing: Mixing | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns the loss of each example, (B,), and the logits, (B, K), both float32.

    Mixup mixes losses, not labels, so that it works for every kind of release. A pure function of
    its arguments (batch statistics in `buffers` aside), so that it can be compiled.
    """
    logits = functional_call(network, ({**parameters}, {**buffers}), (images,)).float()
    losses = loss(logits, targets)
    if mixing is not None:
        partner_losses = loss(logits, targets[mixing.partner])
        losses = mixing.weight * losses + (1 - mixing.weight) * partner_losses
    return losses, logits
