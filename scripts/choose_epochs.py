"""How many epochs held-out releases favour: no true label, no test image is looked at.

    python scripts/choose_epochs.py dataset=mnist mechanism=rr,rappor,alibi eps=0.3,1 \
        trainer.epochs=12 [held_out=10000] [out=FILE.csv] [data_dir=FOLDER]

Each cell releases every label once, trains on all but the last examples and measures, after every
epoch, its own loss on the releases of those. The release is that of the run of the same cell, so
that both together cost what one of them costs. Prints and writes (results/epochs.csv), per cell,
the epoch with the smallest held-out loss.
"""

import sys
from pathlib import Path

import pandas as pd
import torch

from labeldp_bench import seeding
from labeldp_bench.cell import Cell
from labeldp_bench.config import CHECKOUT
from labeldp_bench.exchange import Classifier, Epoch, Session, Supervision
from labeldp_bench.experiments import cells_of
from labeldp_bench.files import write_text
from labeldp_bench.host import prepare_training
from labeldp_bench.learners import SingleStage
from labeldp_bench.losses import loss_named
from labeldp_bench.place import resolve_device
from labeldp_bench.progress import say
from labeldp_bench.script import command, default_data_dir, integer, output_file, split_arguments
from labeldp_bench.validate import InputError, check_integer

OUT = CHECKOUT / "results" / "epochs.csv"


def held_out_losses(cell: Cell, data_dir: Path, device: torch.device, held_out: int) -> list[float]:
    """Returns the mean loss on held-out releases after each epoch."""
    parts = cell.build()
    learner = parts["learner"]
    if not isinstance(learner, SingleStage) or not hasattr(parts["model"], "trainer"):
        raise InputError(
            f"{cell.title} has not one number of epochs to choose (name a network, and a mechanism "
            "with one stage)"
        )
    seed = seeding.derive(cell.seed, "trial", 0)  # the run's own: its very release
    bundle = parts["dataset"].draw(data_dir, seed)
    total = len(bundle.train_features)
    check_integer("held_out", held_out, low=1, high=total - 1)
    vault = bundle.vault.open(parts["mechanism"].eps, seed, data=cell.data_name)
    release = vault.door.release(parts["mechanism"])
    supervision = Supervision.of([release], loss_named(learner.loss))
    is_held = torch.arange(total) >= total - held_out
    held = supervision.take(is_held)
    losses: list[float] = []

    def on_epoch(epoch: Epoch, classifier: Classifier) -> None:
        logits = classifier.scores(bundle.train_features[held.indices])
        losses.append(float(held.loss(logits, held.targets).mean()))
        say(f"  epoch {epoch.number:>3}/{epoch.total}  held-out loss {losses[-1]:.6f}")

    session = Session(seed, device, on_epoch, say)
    parts["model"].fit(bundle.train_features, supervision.take(~is_held), session, None)
    return losses


@command(__doc__)
def main(arguments: list[str]) -> int:
    """Measures, prints and writes; returns the exit status."""
    own = {"held_out": "10000", "out": str(OUT), "data_dir": default_data_dir()}
    own, axes = split_arguments(arguments, own)
    held_out = integer("held_out", own["held_out"], low=1)
    prepare_training()
    rows = []
    device = resolve_device("auto")
    cells, out = cells_of([{}], axes), output_file("out", own["out"])
    for number, cell in enumerate(cells, start=1):
        say(f"[{number}/{len(cells)}] {cell.title}")
        losses = held_out_losses(cell, Path(own["data_dir"]).expanduser(), device, held_out)
        best = min(range(len(losses)), key=losses.__getitem__)
        say(f"  smallest after epoch {best + 1}")
        rows += [
            {
                "dataset": cell.dataset_name,
                "mechanism": cell.identity["mechanism"],
                "loss": cell.identity["learner.loss"],
                "eps": cell.identity.get("mechanism.eps", "inf"),
                "seed": cell.seed,
                "held_out": held_out,
                "epoch": epoch,
                "held_out_loss": round(loss, 6),
                "best": epoch == best + 1,
            }
            for epoch, loss in enumerate(losses, start=1)
        ]
        write_text(out, pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
