"""Images per second of each network in our trainer's own step, on synthetic images.

    python scripts/bench_training.py [--quick] [--device cpu] [--precision float32] [model ...]

A step is what a run does: slicing, augmentation, mixup, forward, backward, optimizer. The first
step of each network is not timed. Prints a Markdown table and writes
results/benchmarks/training_<device>.csv.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from labeldp_bench.host import keep_memory, prepare_threads

prepare_threads()  # before torch, which reads the setting

import torch  # noqa: E402

from labeldp_bench.benchmarks import BENCHMARKS, write_benchmark  # noqa: E402
from labeldp_bench.config import compose_cell  # noqa: E402
from labeldp_bench.learners.base import Epoch, Session, Supervision  # noqa: E402
from labeldp_bench.losses import loss_named  # noqa: E402
from labeldp_bench.models import NetworkModel  # noqa: E402
from labeldp_bench.place import describe_device, resolve_device  # noqa: E402
from labeldp_bench.train import PRECISIONS  # noqa: E402
from labeldp_bench.validate import InputError  # noqa: E402

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
SHOWN = ("model", "image", "recipe", "batch_size", "parameters", "precision", "images_per_second")


def measure(name: str, device: torch.device, precision: str, steps: int) -> dict[str, Any]:
    """Returns one row of the table: the network `name` over `steps` steps."""
    recipe, shape = NETWORKS[name]
    cell = compose_cell(
        [*recipe, f"model={name}", "mechanism=rr", "trainer.epochs=1",
         f"trainer.precision={precision}"]
    )  # fmt: skip
    model: NetworkModel = cell.build()["model"]
    size = model.trainer.batch_size
    epochs: list[Epoch] = []
    parameters = 0
    for count in (size, steps * size):  # the first is warm-up
        generator = torch.Generator().manual_seed(0)
        images = torch.randint(256, (count, *shape), dtype=torch.uint8, generator=generator)
        labels = torch.randint(CLASSES, (count,), generator=generator)
        supervision = Supervision(
            torch.arange(count),
            labels,
            torch.nn.functional.one_hot(labels, CLASSES).bool(),
            loss_named("plain"),
        )
        session = Session(0, device, lambda epoch, _: epochs.append(epoch), lambda _: None)
        network = model.fit(images, supervision, session).network
        parameters = sum(each.numel() for each in network.parameters())
    return {
        "model": name,
        "image": "x".join(map(str, shape)),
        "recipe": recipe[1].partition("=")[2],
        "batch_size": size,
        "parameters": parameters,
        "precision": model.resolved_precision(device),
        "steps": steps,
        "images_per_second": round(epochs[-1].num_examples / epochs[-1].seconds, 1),
    }


def main(arguments: list[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    parser = argparse.ArgumentParser(description="Images per second of each network.")
    parser.add_argument("models", nargs="*", metavar="model", help=", ".join(NETWORKS))
    parser.add_argument("--quick", action="store_true", help="3 steps of each network, not 20")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto", choices=PRECISIONS)
    parser.add_argument("--out", type=Path, default=BENCHMARKS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    unknown = {*options.models} - {*NETWORKS}
    if unknown:
        parser.error(f"models are {', '.join(NETWORKS)}; got {', '.join(sorted(unknown))}")
    try:
        device = resolve_device(options.device)
    except InputError as error:
        parser.error(str(error))
    keep_memory()
    print("| " + " | ".join(SHOWN) + " |\n" + "|---" * len(SHOWN) + "|")
    rows = []
    for name in options.models or NETWORKS:
        rows.append(measure(name, device, options.precision, 3 if options.quick else 20))
        shown = [f"{rows[-1][key]:,}" if key in SHOWN[4:] and key != "precision"
                 else str(rows[-1][key]) for key in SHOWN]  # fmt: skip
        print("| " + " | ".join(shown) + " |", flush=True)
    path = write_benchmark("training", rows, device, options.out)
    print(f"\n{describe_device(device)}, torch {torch.__version__}: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
