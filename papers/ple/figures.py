"""Figures 2 to 4 of PLE, and one of ours over its ranges. PLE has no guarantee."""

from functools import partial

from papers.figures import Axis, PaperFigure
from papers.ple import checks
from papers.ple.enhancement import conditions, draw_enhancement
from papers.ple.response import draw_response, matched

ON_TOP = "share of published vectors with the true label on top, %"
OF_DATA_SETS = partial(
    PaperFigure,
    panels="dataset",
    titles={
        "mnist": "MNIST",
        "fashion_mnist": "Fashion-MNIST",
        "cifar10": "CIFAR-10",
        "cifar100": "CIFAR-100",
    },
    note=(
        "The paper has CIFAR-10 and -100, WideResNet-28-2 and up to 300 epochs; MNIST, "
        "Fashion-MNIST, the CNN and a1 above 0.4 are ours."
    ),
)
AGAINST_RESPONSE = partial(
    OF_DATA_SETS,
    y=Axis("accuracy", "model accuracy", "test accuracy, %", scale=100),
    draw=draw_response,
    bands="Bars: 95 % t intervals, where there are several seeds.",
    notes=matched,
)


def _response(key: str, label: str) -> Axis:
    return Axis(key, "response accuracy", label, scale=100)


ON_FEATURES = {
    "budget": "features",
    "note": "All classifiers are linear on features from ImageNet; PLE's are trained as the paper "
    "trains its WideResNet-28-2, without augmentation. k1 above 3 is ours.",
}
FIGURE_2 = partial(
    AGAINST_RESPONSE,
    name="ple/figure2",
    title="Model accuracy against response accuracy; PLE has no guarantee at any point",
    x=_response("response_accuracy", "share of released labels whose best guess is right, %"),
    marks={
        "mechanism.punishment": "a1",
        "mechanism.compensation": "a2",
        "mechanism.randomness": "a3",
        "mechanism.k1": "k1",
    },
    statements=checks.FIGURE_2,
)
FIGURE_3 = partial(
    AGAINST_RESPONSE,
    name="ple/figure3",
    title="Server of PLE (no guarantee) with its objective and with plain cross entropy",
    x=_response("released_agreement", ON_TOP),
    marks={"mechanism.punishment": "a1", "mechanism.k1": "k1"},
    statements=checks.FIGURE_3,
)
ALL = (
    FIGURE_2(),
    FIGURE_2(
        **ON_FEATURES,
        title="On public features: model accuracy against response accuracy; PLE has no guarantee",
    ),
    FIGURE_3(),
    FIGURE_3(
        **ON_FEATURES,
        title="On public features: server of PLE (no guarantee), its objective and cross entropy",
    ),
    OF_DATA_SETS(
        name="ple/figure4",
        title="What PLE publishes (no guarantee)",
        x=Axis("mechanism.punishment", "a1"),
        draw=draw_enhancement,
        bands="Last row: filled marks where Theorem 1 applies.",
        notes=conditions,
    ),
    AGAINST_RESPONSE(
        name="ple/ranges",
        title="PLE (no guarantee) over the paper's ranges of a2 and a3, for both values of k2",
        x=_response("response_accuracy", ON_TOP),
        draw=partial(draw_response, joined=False),  # two settings change from a point to the next
        lines="learner.k2",
        note="Ours; the paper shows no such figure. a1=0.2.",
        marks={"mechanism.randomness": "a3", "mechanism.compensation": "a2"},
    ),
)
