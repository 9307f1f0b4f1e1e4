"""Small networks that train as one: stacked weights, shared images, one forward pass for all.

The cells of a pack have one seed and one recipe. Order, augmentation, first weights and dropout
masks follow from the seed alone, as in a single run, so that a cell's record is that of its single
run up to rounding, whatever its neighbours are. Losses and targets are each cell's own.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor
from torch.func import functional_call, stack_module_state, vmap

from labeldp_bench.exchange import Classifier, Epoch, Session, Supervision
from labeldp_bench.fit import Mixing, dropout_state, finite, out_of_memory, set_dropout_state
from labeldp_bench.losses import Loss
from labeldp_bench.progress import say
from labeldp_bench.validate import InputError

if TYPE_CHECKING:
    from labeldp_bench.models.network import NetworkClassifier, NetworkModel


@dataclass
class Member:
    """One cell of a pack.

    Attributes:
        classifier: the cell's own; its network is filled after every epoch.
        supervision: what is known of its labels.
        session: its reports, and its checkpoint.
        saved: what its checkpoint had for this fit.
        error: why it failed, its neighbours go on.
        together: how many trained at once.
    """

    classifier: "NetworkClassifier"
    supervision: Supervision
    session: Session
    saved: dict[str, Any] | None = None
    error: Exception | None = None
    together: int = 1

    @property
    def epoch(self) -> int:
        """How many epochs it did before it was cut off."""
        return int(self.saved["epoch"]) if self.saved else 0

    def take_up(self) -> None:
        """Asks for its checkpoint's state of this fit, and takes the weights from there."""
        checkpoint = self.session.checkpoint
        self.saved = checkpoint.next_fit() if checkpoint is not None else None
        if checkpoint is not None and self.saved is not None:
            with checkpoint.taking():
                self.classifier.network.load_state_dict(self.saved["network"])
                self.together = self.saved.get("together", 1)  # it may have begun alone
                if not self.saved.get("finished"):  # what the pack is going to ask for
                    missing = {"epoch", "streams", "dropout"} - self.saved.keys()
                    missing |= {"state", "param_groups"} - self.saved["optimizer"].keys()
                    if missing:
                        raise KeyError(*missing)


class Pack:
    """The model of several learners that fit it once each; they get it trained by `train`.

    Args:
        model: what each of them would fit alone.
    """

    def __init__(self, model: "NetworkModel") -> None:
        self.model = model
        self.members: list[Member] = []

    def fit(
        self,
        features: Tensor,
        supervision: Supervision,
        session: Session,
        start: Classifier | None = None,
    ) -> "NetworkClassifier":
        """Returns a fresh network, which `train` trains; until then nobody may ask for scores."""
        assert start is None, "the learners of a pack fit once"
        assert supervision.refine is None, "a pack has fixed targets"
        self.model.trainer.check(supervision)
        self.features = features
        with self.model.seeded(session):
            classifier = self.model.begin(features, supervision, session)
            self._after_start = dropout_state(session.device)
        self.members.append(Member(classifier, supervision, session))
        return classifier

    def train(self) -> None:
        """Trains every member."""
        together: dict[int, list[Member]] = {}
        for member in self.members:
            try:
                member.take_up()
            except InputError as error:
                member.error = error
                continue
            if member.saved is None or not member.saved.get("finished"):
                # A kill may fall between the checkpoints of two members.
                together.setdefault(member.epoch, []).append(member)
        for members in together.values():
            self._train(members)

    def member_of(self, classifier: object) -> Member:
        """Returns the member with this classifier."""
        return next(member for member in self.members if member.classifier is classifier)

    def _train(self, members: list[Member]) -> None:
        """Trains some, in halves where the device has no room for all at once."""
        fit, session = None, members[0].session
        try:
            fit = PackFit(self.model, members)
            with self.model.seeded(session):
                set_dropout_state(self._after_start, session.device)
                self.model.trainer.run(fit, self.features, session)
        except Exception as error:
            # After an epoch the members have reports that cannot be taken back.
            reported = fit is not None and fit.number > fit.first
            if not out_of_memory(error) or len(members) == 1 or reported:
                for member in members:
                    member.error = member.error or error
                return
        else:
            for member in members:
                member.together = len(members)
            return
        del fit
        if session.device.type == "cuda":
            torch.cuda.empty_cache()
        half = len(members) // 2
        say(f"no memory for {len(members)} networks at once; {half} and {len(members) - half}")
        self._train(members[:half])
        self._train(members[half:])


class PackFit:
    """The fit of several networks at once; see `labeldp_bench.fit.Fit`.

    Parameters, buffers and the optimizer's state have a leading axis M, one entry per member. SGD
    and Adam work entry by entry, so that stacking changes no update.
    """

    def __init__(self, model: "NetworkModel", members: list[Member]) -> None:
        self.trainer, self.members = model.trainer, members
        first = members[0]
        self.device, self.classifier = first.session.device, first.classifier
        self.indices = first.supervision.indices
        assert all(torch.equal(m.supervision.indices, self.indices) for m in members)
        self.tensors = stack_module_state([m.classifier.network for m in members])
        self.optimizer = model.trainer.optimizer(self.tensors[0].values(), fused=True)
        self.peak_rates = [group["lr"] for group in self.optimizer.param_groups]
        plausible = [m.supervision.plausible for m in members]
        self.plausible = torch.stack(plausible).to(self.device)
        self.targets = _grouped(members, self.device)
        self.first = self.number = first.epoch

    def describe(self) -> str:
        """Returns where and how the networks compute."""
        return f"{self.classifier.describe()}, {len(self.members)} networks at once"

    def normalise(self, images: Tensor) -> Tensor:
        """Returns uint8 (B, H, W, C) as the networks' input."""
        return self.classifier.normalise(images)

    def resume(self, order: Generator, draws: Generator) -> int:
        """Takes up the state of the members' checkpoints, all of one epoch."""
        self.streams = (order, draws)
        states = [member.saved for member in self.members if member.saved is not None]
        if not states:
            return 0
        self.optimizer.load_state_dict(_stacked([state["optimizer"] for state in states]))
        for stream, state in zip(self.streams, states[0]["streams"], strict=True):
            stream.set_state(state)
        set_dropout_state(states[0]["dropout"], self.device)
        return self.first

    def begin_epoch(self) -> None:
        """Clears the sums, (M,)."""
        self.classifier.network.train()
        self.loss_sum = torch.zeros(len(self.members), device=self.device)
        self.hits = torch.zeros(len(self.members), device=self.device)

    def set_rate(self, factor: float) -> None:
        """Sets the learning rate of all members to `factor` of its peak."""
        for group, rate in zip(self.optimizer.param_groups, self.peak_rates, strict=True):
            group["lr"] = rate * factor

    def step(self, batch: Tensor, rows: Tensor, mixed: Mixing | None) -> None:
        """Lets every member learn from one batch."""
        network, views = self.classifier.network, self.trainer.views
        parameters, buffers = self.tensors
        if self.classifier.precision == "bf16":
            # Under vmap autocast leaves biases in float32, and with them all that follows.
            batch = batch.bfloat16()
            parameters = {name: values.bfloat16() for name, values in parameters.items()}

        def forward(*tensors: dict[str, Tensor]) -> Tensor:
            return functional_call(network, tensors, (batch,))

        with self.classifier.autocast():
            # "same": the masks that the seed gives to a single run.
            logits = vmap(forward, randomness="same")(parameters, buffers).float()
            losses = torch.empty(logits.shape[:2], device=self.device)
            for loss, places, targets in self.targets:
                losses[places] = _losses(loss, logits[places], targets, rows, mixed)
        self.optimizer.zero_grad(set_to_none=True)
        (losses.mean(1).sum() * views).backward()
        self.optimizer.step()
        self.loss_sum += losses.detach().sum(1)
        chosen = logits.detach().argmax(2, keepdim=True)
        self.hits += self.plausible[:, rows].gather(2, chosen).sum((1, 2)) / views

    def end_epoch(self, number: int, started: float, views: Iterable[list[Tensor]]) -> bool:
        """Reports the epoch of every member and saves; a member's failure is its own."""
        size, last = len(self.indices), number == self.trainer.epochs
        losses, hits = (self.loss_sum / size).tolist(), (self.hits / size).tolist()
        seconds = (time.perf_counter() - started) / len(self.members)
        self.number = number
        rate = self.optimizer.param_groups[0]["lr"]
        for place, member in enumerate(self.members):
            if member.error is not None:
                continue
            try:
                finite(losses[place], number)
            except Exception as error:
                member.error = error
                continue
            self._fill(place, member)
            epoch = Epoch(
                number, self.trainer.epochs, losses[place], hits[place], rate, seconds, size
            )
            member.session.on_epoch(epoch, member.classifier)
            if member.session.checkpoint is not None:
                state = lambda place=place, member=member: self._state(place, member)  # noqa: E731
                member.session.checkpoint.after_epoch(state, finished=last)
        return all(member.error is not None for member in self.members)

    def finish(self) -> None:
        """Nothing is left to do: every member has its weights of the last epoch."""

    @torch.no_grad()
    def _fill(self, place: int, member: Member) -> None:
        """Copies the weights of one place of the stack into the member's own network."""
        own = member.classifier.network.state_dict()
        for stacked in self.tensors:
            for name, values in stacked.items():
                own[name].copy_(values[place])  # shares memory with the network

    def _state(self, place: int, member: Member) -> dict[str, Any]:
        """Returns what a single run of this member would save."""
        whole = self.optimizer.state_dict()
        slots = {
            number: {key: _entry(values, place) for key, values in slot.items()}
            for number, slot in whole["state"].items()
        }
        return {
            "epoch": self.number,
            "network": member.classifier.network.state_dict(),
            "notes": dict(member.session.notes),
            "optimizer": {"state": slots, "param_groups": whole["param_groups"]},
            "targets": None,
            "best": {},
            "together": len(self.members),
            "streams": [stream.get_state() for stream in self.streams],
            "dropout": dropout_state(self.device),
        }


def _losses(
    loss: Loss, logits: Tensor, targets: Tensor, rows: Tensor, mixed: Mixing | None
) -> Tensor:
    """Returns the loss of each member and example, (G, B), from logits (G, B, K)."""
    flat = logits.flatten(0, 1)
    losses = loss(flat, targets[:, rows].flatten(0, 1)).view(logits.shape[:2])
    if mixed is None:
        return losses
    partner, weight = mixed
    others = loss(flat, targets[:, rows[partner]].flatten(0, 1)).view(logits.shape[:2])
    return weight * losses + (1 - weight) * others


def _grouped(members: list[Member], device: torch.device) -> list[tuple[Loss, Tensor, Tensor]]:
    """Returns for each kind of loss: the loss, the places that have it, (G,), their targets."""
    places: dict[tuple, list[int]] = {}
    for place, member in enumerate(members):
        targets = member.supervision.targets
        key = (member.supervision.loss.name, targets.dtype, tuple(targets.shape[1:]))
        places.setdefault(key, []).append(place)
    return [
        (
            members[own[0]].supervision.loss,
            torch.tensor(own, device=device),
            torch.stack([members[place].supervision.targets for place in own]).to(device),
        )
        for own in places.values()
    ]


def _entry(values: Any, place: int) -> Any:
    """Returns a member's part of an optimizer's value; numbers of steps belong to all."""
    return values[place].clone() if isinstance(values, Tensor) and values.dim() else values


def _stacked(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the optimizer state of a pack from those of its members."""
    slots = {
        number: {
            key: torch.stack([state["state"][number][key] for state in states])
            if isinstance(values, Tensor) and values.dim()
            else values
            for key, values in slot.items()
        }
        for number, slot in states[0]["state"].items()
    }
    return {"state": slots, "param_groups": states[0]["param_groups"]}
