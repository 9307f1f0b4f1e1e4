"""A column of labels: as classes, as numbers, and what is wrong with one, which is never shown."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.io.tables import is_empty
from labeldp.names import label_texts
from labeldp.support.validate import InputError

NOT_SHOWN = "it is not shown, as labels are secret"


def texts_of(labels: pa.Array) -> tuple[list[str], NDArray[np.int64]]:
    """Returns the different labels as texts, and which of them each label is, int64 (n,).

    Numbers and truth values become texts as `label_texts` says; a missing one is empty.
    """
    encoded = labels if pa.types.is_dictionary(labels.type) else labels.dictionary_encode()
    texts = [*label_texts(plain_values(encoded.dictionary)), ""]
    places = encoded.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
    return texts, places.astype(np.int64)


def plain_values(labels: pa.Array) -> list[object]:
    """Returns labels as Python values.

    Raises:
        InputError: one that has none, such as a time of nanoseconds; Arrow's message would show it.
    """
    try:
        labels.validate(full=True)
        return labels.to_pandas().tolist()
    except (pa.ArrowException, ValueError, OverflowError):
        raise InputError(
            f"a label is no value of its type, {labels.type}, that has a text (write the column as "
            f"text; {NOT_SHOWN})"
        ) from None


def codes_of(labels: pa.Array, classes: pd.Index) -> NDArray[np.int64]:
    """Returns the position of each label among the classes, int64 (n,); -1: it is none of them.

    Args:
        labels: of any type.
        classes: texts.
    """
    texts, places = texts_of(labels)
    return classes.get_indexer(pd.Index(texts))[places].astype(np.int64)


def wrong_label(
    label: pa.Array, classes: Sequence[object], option: str, *, by_number: bool = False
) -> str:
    """Returns what is wrong with a label that is none of the classes, without showing it.

    Args:
        label: in an array of its own.
        classes: their names.
        option: that named them, for the remedy.
        by_number: whether a text of a number is compared as that number.
    """
    if is_empty(label)[0]:
        return "the label is empty (leave the row out, or add a class for it, such as refused)"
    names = ",".join(map(str, classes[:10])) + ",..." * (len(classes) > 10)
    is_text = pa.types.is_string(label.type)
    if is_text and label[0].as_py().strip().casefold() in {
        str(name).casefold() for name in classes
    }:
        return (
            f"the label is one of {names} but for upper and lower case (spell it in "
            f"{option} as in the file, or change the file)"
        )
    compared = ""
    if pa.types.is_boolean(label.type):
        compared = "; truth values are spelled true and false"
    elif pa.types.is_timestamp(label.type):
        compared = "; a time is spelled as 2024-01-31 00:00:00"
    elif is_text and not by_number:
        compared = "; texts are compared, 1.0 is not 1"
    return f"the label is none of {names} ({NOT_SHOWN}{compared})"


def numbers_of(labels: pa.Array) -> NDArray[np.float64]:
    """Returns labels as numbers, float64 (n,); NaN where one is none."""
    if pa.types.is_integer(labels.type) or pa.types.is_floating(labels.type):
        return labels.to_numpy(zero_copy_only=False).astype(np.float64)
    texts = pd.Series(label_texts(plain_values(labels)))
    return pd.to_numeric(texts, errors="coerce").to_numpy(np.float64)
