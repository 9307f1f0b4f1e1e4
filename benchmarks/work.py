"""What one training step asks of a device: arithmetic, and bytes that pass through memory."""

from typing import Any

from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode


class _Traffic(TorchDispatchMode):
    """Counts what every operation reads and writes; views move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, given: tuple = (), named: dict | None = None
    ) -> Any:
        result = operation(*given, **(named or {}))
        if not operation.is_view:
            tensors = [leaf for leaf in tree_leaves((given, result)) if isinstance(leaf, Tensor)]
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return result


def per_image(network: nn.Module, batch: Tensor, autocast: Any) -> tuple[float, float]:
    """Returns floating point operations and bytes of one image, forward and backward.

    The bytes are those of a step that fuses nothing, an upper bound of what must move. The
    optimizer and the augmentation are left out.

    Args:
        network: on the batch's device.
        batch: float (B, C, H, W).
        autocast: context of the forward pass.
    """
    traffic, flops = _Traffic(), FlopCounterMode(display=False)
    with traffic, flops:
        with autocast:
            scores = network(batch)
        scores.float().logsumexp(1).sum().backward()
    network.zero_grad(set_to_none=True)
    return flops.get_total_flops() / len(batch), traffic.bytes / len(batch)
