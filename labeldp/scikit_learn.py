"""Which tools of scikit-learn take a release in the place of labels, and what the others are told.

Those that only pass rows on to `LabelDPClassifier` take it. Those that look at labels themselves
make an array of them first, and would go on with shares, or call them labels of a wrong kind.
"""

import inspect

from labeldp.support.validate import InputError

INNER_MODULES = ("numpy", "sklearn.utils", "sklearn.base", "sklearn.externals")
"""Modules that make an array of what some tool was given."""
COMPARE = "cross_val_score and GridSearchCV, with scoring=labeldp.released_accuracy, take releases"
SELECT = "SequentialFeatureSelector, with scoring=labeldp.released_accuracy, takes one"
REMEDIES = {
    "cross_val_predict": "labeldp.cross_val_predict(model, X, release) takes one",
    "RFE": SELECT,
    "RFECV": SELECT,
    "SelectKBest": SELECT,
    "StratifiedKFold": "KFold takes one",
    "StratifiedShuffleSplit": "ShuffleSplit takes one",
    "CalibratedClassifierCV": "labeldp.calibration says how well a model is calibrated",
    "StackingClassifier": f"compare the models: {COMPARE}",
    "VotingClassifier": f"compare the models: {COMPARE}",
    "TunedThresholdClassifierCV": "compare thresholds by labeldp.estimate_accuracy",
}
"""What takes a release in place of a tool that takes none."""


def asking_tool() -> str | None:
    """Returns which tool of scikit-learn asks for the array of a release; None: another program.

    scikit-learn says nothing of itself when it makes an array, so that the stack is looked at.
    """
    frame = inspect.currentframe()
    frame = frame.f_back.f_back if frame and frame.f_back else None  # above `Release.__array__`
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith(INNER_MODULES):
            if not module.startswith("sklearn."):
                return None
            tool = frame.f_locals.get("self")
            name = frame.f_code.co_name if tool is None else type(tool).__name__
            if tool is not None or not name.startswith("_"):
                return name
        frame = frame.f_back
    return None


def refusal(tool: str, *, of_numbers: bool) -> InputError:
    """Returns the error of a tool that was given a release, with what takes one in its place."""
    own = "LabelDPRegressor" if of_numbers else "LabelDPClassifier"
    remedy = REMEDIES.get(tool)
    if remedy is None:
        remedy = f"{own}({tool}(...)) learns from one" if tool[:1].isupper() else COMPARE
    return InputError(f"{tool} takes labels, and was given a release of them ({remedy})")
