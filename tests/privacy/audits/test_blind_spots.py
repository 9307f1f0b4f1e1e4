"""Faults that passed the audits once: what was drawn or looked at never showed them."""

import pytest
import torch

from labeldp_bench.mechanisms import FullCubeMeans, LabelDPPro, LocalFull, Mechanism, PateFM
from labeldp_bench.mechanisms.draws import discrete_laplace, numpy_stream, uniforms
from labeldp_bench.mechanisms.gaussian import gaussian_noise
from labeldp_bench.mechanisms.sum_laws import group_sizes, group_sums
from labeldp_bench.privacy.audits.channels import channels_of
from labeldp_bench.support import seeding


class Endless(PateFM):
    """Goes on after the last answer that it has paid for."""

    def release_votes(self, counts, /, generator):
        """Returns all winners."""
        largest = counts.amax(1)
        noisy = largest + gaussian_noise(tuple(largest.shape), self.selection_stddev, generator)
        winners = counts + gaussian_noise(tuple(counts.shape), self.answer_stddev, generator)
        return torch.where(noisy >= self.threshold * self.teachers, winners.argmax(1), -1)


class OneBatch(LabelDPPro):
    """Draws a batch once, and answers every step about it."""

    def release_moments(self, labels, num_classes, /, rows, generator):
        """Returns sums over one batch, with fresh noise."""
        batch = (uniforms((len(labels),), generator) < self.share).nonzero().flatten()
        sums = torch.zeros((num_classes, rows.shape[1]), dtype=torch.float64)
        sums.index_add_(0, labels[batch], rows[batch].to(torch.float64))
        shape = (self.steps, *sums.shape)
        return (sums + gaussian_noise(shape, self.stddev, generator)).transpose(1, 2)

    def release_descent(self, labels, descent, generator):
        """Answers about one batch, with fresh noise."""
        batch = (uniforms((len(labels),), generator) < self.share).nonzero().flatten()
        for _ in range(self.steps):
            total = gaussian_noise((len(descent.weights),), self.descent_stddev, generator)
            total += self.clipped_sum(descent.gradients(batch, labels[batch]))
            descent.step(total / self.share / len(labels))
        return descent.weights


class NoFloor(FullCubeMeans):
    """Divides by the number of labels, which may be far below n_0, at the noise for n_0."""

    def release_groups(self, labels, limit, groups, num_groups, generator):
        """Returns means with noise."""
        sizes = group_sizes(groups, num_groups)
        means = group_sums(labels.clamp(-limit, limit), groups, num_groups) / sizes.clamp_min(1)
        step, scale = self.step(sizes, limit), float(self.scales(sizes, limit)[0])
        noise = discrete_laplace((num_groups,), scale / step, numpy_stream(generator))
        return ((means / step).round() + torch.from_numpy(noise)) * step


class OwnGroupOnly(LocalFull):
    """Leaves groups in which nobody is without noise, and so tells that nobody is there."""

    def release_groups(self, labels, limit, groups, num_groups, generator):
        """Returns noisy means, and 0 where a group is empty."""
        noisy = super().release_groups(labels, limit, groups, num_groups, generator)
        return torch.where(group_sizes(groups, num_groups) > 0, noisy, 0.0)


CASES = {
    "winners after the last one": (PateFM, Endless, {"queries": 20, "answers": 5}, 0, 2000),
    "one batch for all sums": (LabelDPPro, OneBatch, {"steps": 10}, 0, 2000),
    "one batch for all gradients": (LabelDPPro, OneBatch, {"steps": 10}, 1, 10_000),
    "no least size of a group": (FullCubeMeans, NoFloor, {}, 0, 2000),
    "noise where somebody is": (LocalFull, OwnGroupOnly, {}, 1, 2000),
}


@pytest.mark.parametrize("case", CASES)
def test_the_look_at_the_noise_sees_it_and_accuses_nobody(case):
    honest, broken, parameters, number, draws = CASES[case]

    def found(mechanism: Mechanism):
        channel = channels_of(mechanism, 10, None)[number]
        return channel.noise(draws, seeding.generator(0, "audit", number))

    said = found(honest(1.0, **parameters))
    assert said is None or said.agrees
    assert not found(broken(1.0, **parameters)).agrees
