"""Images per second of each network in our trainer's own step, on synthetic images.

    python -m benchmarks.training [budget=quick] [model=cnn,linear] [device=cpu]
        [precision=float32] [step=eager,compiled,captured] [out=FOLDER]

A step is what a run does: slicing, augmentation, mixup, forward, backward, optimizer. The first
step of each network is not timed. Beside it, in the same process: a textbook loop, ten lines on
tensors where nothing is augmented (benchmarks/textbook.py), and the share of what the device
reached just before in one large matrix product and one large copy. Writes
results/benchmarks/training_<device>.csv. 20 steps of each network, 3 with
budget=quick; ten times as many on a GPU, where step= says how: captured as one CUDA graph unless
named, as a run does it, or compiled (capture=false). A CPU has eager steps alone.
"""

import resource
import sys
from unittest import mock

import torch

from benchmarks.harness import BENCHMARKS, Row, ratio, report
from benchmarks.limits import Limits, work_per_image
from benchmarks.textbook import tensor_rate, textbook_rate
from labeldp.losses import loss_named
from labeldp.supervision import Supervision
from labeldp.support.progress import say
from labeldp.support.validate import check_choice
from labeldp_bench.cli.script import command, output_folder, read_arguments
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.experiments.identity import PAPER
from labeldp_bench.interfaces import Epoch, Session
from labeldp_bench.models import NetworkModel
from labeldp_bench.support.device import describe_device, resolve_device
from labeldp_bench.support.process import prepare_training
from labeldp_bench.training.fit import resolve_precision
from labeldp_bench.training.network_fit import BACKENDS
from labeldp_bench.training.trainer import PRECISIONS

CLASSES = 10
DIGITS = ["dataset=mnist", "trainer=vector_approximation"]  # Adam, batch 400, nothing augmented
# SGD, crop, flip, cutout, mixup; batch 128 as in the notes on this machine that we compare with.
COLOUR = ["dataset=cifar10", "trainer=ghazi_cifar10", "trainer.batch_size=128"]
NETWORKS = {
    "linear": (DIGITS, (28, 28, 1)),
    "cnn": (DIGITS, (28, 28, 1)),
    "resnet18_w16": (COLOUR, (32, 32, 3)),
    "wrn28_2": (COLOUR, (32, 32, 3)),
    "wrn28_4": (COLOUR, (32, 32, 3)),
    "resnet18": (COLOUR, (32, 32, 3)),
}
TIMED = 3
"""Epochs of a network without augmentation, which are short; the fastest counts."""
IMAGES = {"mnist": 60_000, "cifar10": 50_000}
STEPS = {PAPER: 20, "quick": 3}
OWN = {"budget": PAPER, "model": ",".join(NETWORKS), "device": "auto", "precision": "auto"}
OWN |= {"step": "captured", "out": str(BENCHMARKS)}
STEPPED = ("eager", "compiled", "captured")
SHOWN = ("model", "image", "recipe", "batch_size", "step", "parameters", "precision")
RATES = (
    "images_per_second", "textbook_images_per_second", "over_textbook", "tensor_images_per_second",
    "over_tensors",
)  # fmt: skip
USED = ("matmul_share", "copy_share", "seconds_per_epoch", "peak_mib")


def measure(
    name: str,
    device: torch.device,
    precision: str,
    steps: int,
    limits: Limits,
    stepped: str = "captured",
) -> Row:
    """Returns one row of the table: the network `name` over `steps` steps, one of STEPPED."""
    recipe, shape = NETWORKS[name]
    captures = stepped == "captured" and device.type in BACKENDS
    timed = TIMED if recipe is DIGITS else 1
    # What is captured is recorded in the first epoch, which is not timed.
    trainer = [f"trainer.epochs={timed + captures}", f"trainer.precision={precision}"]
    model = compose_cell([*recipe, f"model={name}", "mechanism=rr", *trainer]).build().model
    assert isinstance(model, NetworkModel)
    size = model.trainer.batch_size
    epochs: list[Epoch] = []
    parameters = 0
    for count in (size, steps * size):  # the first is warm-up
        if device.type == "cuda":  # the search for fast kernels takes more than training does
            torch.cuda.reset_peak_memory_stats(device)
        generator = torch.Generator().manual_seed(0)
        images = torch.randint(256, (count, *shape), dtype=torch.uint8, generator=generator)
        labels = torch.randint(CLASSES, (count,), generator=generator)
        one_hot = torch.nn.functional.one_hot(labels, CLASSES).bool()
        supervision = Supervision(torch.arange(count), labels, one_hot, loss_named("plain"))
        session = Session(
            0,
            device,
            lambda epoch, _: epochs.append(epoch),
            lambda text: say(text) if "failed" in text else None,
            captures=captures,
        )
        with mock.patch.dict(BACKENDS, clear=stepped == "eager"):
            classifier = model.fit(images, supervision, session)
        network = classifier.network
        parameters = sum(each.numel() for each in network.parameters())
    peak = peak_mib(device)
    rate = max(epoch.num_examples / epoch.seconds for epoch in epochs[-timed:])
    batch = classifier.normalise(images[:size].to(device))
    flops, moved = work_per_image(network, batch, classifier.autocast())
    few = max(1, steps // 4)  # the slow ones
    fresh = model.network(num_classes=CLASSES, image_shape=shape)
    augmented = bool(model.trainer.augment)
    textbook = textbook_rate(fresh, images, labels, size, augmented, device, batches=few)
    tensors = None if augmented else max(
        tensor_rate(fresh, images, labels, size, device) for _ in range(timed)
    )  # fmt: skip
    return {
        "model": name,
        "image": "x".join(map(str, shape)),
        "recipe": recipe[1].partition("=")[2],
        "batch_size": size,
        "step": stepped if device.type in BACKENDS else "eager",
        "parameters": parameters,
        "precision": model.precision_on(device),
        "steps": steps,
        "images_per_second": round(rate, 1),
        "textbook_images_per_second": round(textbook, 1),
        "over_textbook": ratio(rate, textbook),
        "tensor_images_per_second": tensors and round(tensors, 1),
        "over_tensors": tensors and ratio(rate, tensors),
        "matmul_share": round(rate * flops / limits.flops, 4),
        "copy_share": round(rate * moved / limits.copied_bytes, 4),
        "seconds_per_epoch": round(IMAGES[recipe[0].partition("=")[2]] / rate, 2),
        "peak_mib": round(peak),
        "matmul_tflops": round(limits.flops / 1e12, 4),
        "copy_gb": round(limits.copied_bytes / 1e9, 2),
    }


def peak_mib(device: torch.device) -> float:
    """Returns the most memory that was in use: of the GPU, or of this process so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / (2**20 if sys.platform == "darwin" else 2**10)


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    own = read_arguments(arguments, OWN)
    steps = STEPS[check_choice("budget", own["budget"], STEPS)]
    names = [check_choice("model", name, NETWORKS) for name in own["model"].split(",")]
    precision = check_choice("precision", own["precision"], PRECISIONS)
    kinds = [check_choice("step", kind, STEPPED) for kind in own["step"].split(",")]
    device = resolve_device(own["device"])
    out = output_folder("out", own["out"])
    if device.type == "cuda":
        steps *= 10  # a tenth of a second would measure the start of an epoch
    prepare_training()
    limits = Limits.of(device, resolve_precision(precision, device))
    print(f"{describe_device(device)}: {limits}\n")
    rows = (
        measure(name, device, precision, steps, limits, stepped)
        for name in names
        for stepped in kinds
    )
    report("training", rows, out, (*SHOWN, *RATES, *USED), device)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
