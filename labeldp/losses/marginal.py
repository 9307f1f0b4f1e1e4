"""The likelihood of what was released."""

from torch import Tensor

from labeldp.losses.base import Loss, decode, uniform_posterior
from labeldp.store.release import Release


class MarginalLikelihood(Loss):
    """-log of the probability of the release under the network: forward correction.

    Source: Patrini et al. (2017), arXiv:1609.03683 (forward correction). Its gradient is that of
    ALIBI's posterior cross entropy (Malek Esmaeili et al. 2021, arXiv:2106.03408).
    """

    name = "marginal"

    def targets(self, release: Release) -> Tensor:
        """Returns log P(release | class), float32 (n, K), up to a constant per row."""
        return release.centred_log_likelihood

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -log sum_c softmax(logits)_c exp(evidence_c)."""
        return -decode(logits, targets).logsumexp(-1)

    def votes(self, targets: Tensor, num_classes: int) -> Tensor:
        """Returns the posterior of each release under the uniform prior."""
        return uniform_posterior(targets)
