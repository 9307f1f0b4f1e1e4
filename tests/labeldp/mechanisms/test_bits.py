"""Bits that a mechanism cannot release: no likelihood, and refused where they are no bits."""

import math

import numpy as np
import pytest
import torch

from labeldp.mechanisms import HadamardResponse, OptimalMechanism, Rappor, SubsetSelection
from labeldp.support.validate import InputError


@pytest.mark.parametrize("mechanism", [HadamardResponse(eps=1.0), SubsetSelection(eps=1.0, size=2),
                                       OptimalMechanism(eps=1.0)])  # fmt: skip
def test_impossible_bits_have_no_probability(mechanism):
    """If this fails, the likelihood is positive where the sampler never goes."""
    possible = {tuple(row) for row in mechanism.output_space(5).tolist()}
    rest = [row for row in np.ndindex(*[2] * 5) if row not in possible]
    found = mechanism.log_likelihood(torch.tensor(rest, dtype=torch.uint8), 5)
    assert (found == -math.inf).all()


@pytest.mark.parametrize("wrong", [math.nan, 0.5, -1.0, 2.0])
@pytest.mark.parametrize("mechanism", [Rappor(1.0), SubsetSelection(1.0), HadamardResponse(1.0)])
def test_what_is_no_bit_is_refused_by_all_who_read_bits(mechanism, wrong):
    # NaN became a likelihood of 1e19, or all labels alike; 0.5 became a 0.
    released = torch.tensor([[0.0, 1.0, wrong]])
    for read in (mechanism.log_likelihood, mechanism.centred_log_likelihood,
                 mechanism.most_likely_labels,
                 mechanism.unbiased):  # fmt: skip
        with pytest.raises(InputError, match="released bits must be 0 or 1"):
            read(released, 3)
    whole = torch.tensor([[0.0, 1.0, 0.0]])
    assert torch.equal(
        mechanism.centred_log_likelihood(whole, 3),
        mechanism.centred_log_likelihood(whole.byte(), 3),
    )
