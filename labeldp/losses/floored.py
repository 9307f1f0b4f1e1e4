"""Cross entropy with a floor under the probability."""

from torch import Tensor

from labeldp.losses.plain import PlainCrossEntropy


class FlooredCrossEntropy(PlainCrossEntropy):
    """Cross entropy with 1e-4 added to the probability: at most 9.21 for an example.

    Labels that the network holds for impossible, as noisy ones come to be, pull less and less.

    Source: the code of Liu, Ding (2026), BlockRR; their paper says cross entropy.
    """

    name = "floored"
    floor = 1e-4

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Returns -log(softmax(logits) + 1e-4) at the released label."""
        probabilities = logits.softmax(-1).gather(1, targets[:, None]).squeeze(1)
        return -(probabilities + self.floor).log()
