"""A command for each choice that runs as it stands, so that help can show it."""

import re

from labeldp_bench.cli.help_configs import file_of

WRITTEN = re.compile(r"^# Example: (.+)$", re.MULTILINE)
"""In the comment at the top of a YAML, where the usual command of its group does not do."""
USUAL = {
    "dataset": "dataset={name} mechanism=rappor eps=1",
    "mechanism": "dataset=circle mechanism={name} eps=1",
    "learner": "dataset=mnist mechanism=rr learner={name} eps=1",
    "model": "dataset=mnist mechanism=rappor model={name} eps=1",
    "pretrain": "dataset=mnist mechanism=rappor model=ridge pretrain={name} eps=1",
    "views": "dataset=mnist mechanism=rappor model=probe pretrain=simclr views={name} eps=1",
    "encoder": "dataset=cifar10 mechanism=rappor model=probe encoder={name} eps=1",
    "stages": "dataset=mnist mechanism=lp_2st stages={name} eps=1",
    "budget": "experiment=quickstart budget={name}",
    "sweep": "sweep={name} mechanism=rr",
    "experiment": "experiment={name}",
}
OF_OTHERS = "dataset=mnist mechanism=rappor {group}={name} eps=1"


def example(group: str, name: str, own: str | None = None) -> str:
    """Returns the overrides of a command with this choice: as its YAML writes them, or the usual.

    Args:
        group: of the choice.
        name: of the choice.
        own: a folder of the user's own configs.
    """
    written = WRITTEN.search(file_of(group, name, own).read_text(encoding="utf-8"))
    if written:
        return written[1]
    return USUAL.get(group, OF_OTHERS).format(group=group, name=name)
