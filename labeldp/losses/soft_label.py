"""Cross entropy with one soft label per release."""

from torch import Tensor
from torch.nn import functional

from labeldp.losses.base import Loss, uniform_posterior
from labeldp.store.release import Release


class SoftLabelCrossEntropy(Loss):
    """Softmax cross entropy with the posterior of each release under the uniform prior.

    The soft label is made once and stays. ALIBI's own paper makes it again in training, with the
    network's prediction as prior, which is the gradient of `learner.loss=marginal`.

    Source: Zhao et al. (2025), vector_approximation, appendix B.2, equation 29, there for ALIBI.
    """

    name = "soft_label"

    def targets(self, release: Release) -> Tensor:
        """Returns P(class | release) under the uniform prior, float32 (n, K)."""
        return uniform_posterior(release.centred_log_likelihood)

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -sum_c target_c log softmax(logits)_c."""
        return -(targets * functional.log_softmax(logits, -1)).sum(-1)
