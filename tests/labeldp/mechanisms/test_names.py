"""Names on the command line follow from the classes."""

import sys

import pytest

import labeldp.mechanisms
from labeldp import named_mechanisms
from labeldp.mechanisms import Rappor

OF_CLASSES = (
    "alibi hadamard local_hashing lp_1st none optimal ordinal oue rappor rr subset_selection unary"
)
OTHERS = (
    "blockrr cube_means exponential_cubes full_cube_means full_exponential_cubes histogram "
    "labeldp_pro laplace local_full noisy_clusters noisy_moments pate_fm rp_with_prior rr_on_bins "
    "rrwithprior unbiased_randomizer"
)


def test_every_name_is_known():
    # A release file names its mechanism: a name that is lost cannot be read any more.
    assert named_mechanisms.CLASS_MECHANISMS.keys() >= set(OF_CLASSES.split())
    assert named_mechanisms.REAL_MECHANISMS.keys() >= {"laplace", "unbiased_randomizer"}
    assert "blockrr" not in named_mechanisms.CLASS_MECHANISMS  # of no use without a prior
    assert "rr_on_bins" not in named_mechanisms.REAL_MECHANISMS  # its mean is not the number
    claims = {*OF_CLASSES.split(), *OTHERS.split()} - {"none"}
    assert named_mechanisms.MEASUREMENTS.keys() >= claims
    assert "none" not in named_mechanisms.MEASUREMENTS


@pytest.fixture
def own_file(tmp_path, monkeypatch):
    (tmp_path / "quiet_rappor.py").write_text(
        "from labeldp.mechanisms.bits import Rappor\n"
        "class QuietRappor(Rappor):\n    known_as = ('quiet_rappor',)\n"
        "class Nameless(Rappor):\n    pass\n"
    )
    monkeypatch.setattr(
        labeldp.mechanisms, "__path__", [*labeldp.mechanisms.__path__, str(tmp_path)]
    )
    yield
    sys.modules.pop("labeldp.mechanisms.quiet_rappor", None)


def test_a_class_in_a_new_file_is_found_by_its_name(own_file):
    # Every new mechanism had to be entered in tables of names.
    found = named_mechanisms._named()
    assert found["quiet_rappor"].__name__ == "QuietRappor"
    assert found["rappor"] is Rappor  # a subclass does not take the name of its base
