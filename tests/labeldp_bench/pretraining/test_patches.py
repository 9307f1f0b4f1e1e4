"""Whitened patches as filters, alone and beside a trained network."""

import pytest
import torch

from labeldp.support.validate import InputError
from labeldp_bench.experiments.compose import compose_cell
from labeldp_bench.models.convolutional import FLAT, PatchNetwork
from labeldp_bench.pretraining.patches import Patches, random_patches, whitening
from labeldp_bench.pretraining.recipes import Combined, Mirrored
from tests.learning import record_of

CPU = torch.device("cpu")
NPZ = ["dataset=npz", "dataset.name=tiny", "dataset.num_classes=3", "mechanism=rappor", "eps=4"]
FEW = ["filters=8", "size=3"]
SHORT = ["trainer.epochs=2", "trainer.batch_size=64", "trainer.precision=float32"]
PARTS = [f"pretrain.parts.simclr.{text}" for text in SHORT]
PARTS += [f"pretrain.parts.patches.{text}" for text in FEW]


def images(count=60):
    draws = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 9, 10, 2), generator=draws).to(torch.uint8)


def test_features_equal_a_loop_over_patches():
    # Contrast, whitening, sign and cell are folded into few operations.
    recipe = Patches(filters=5, size=3, cells=2, threshold=0.3)
    tensors = recipe.train(None, images(), None, CPU).tensors
    network = recipe.network(None, None)(num_classes=2, image_shape=(9, 10, 2))
    network.load_state_dict(tensors, strict=False)
    network.head = torch.nn.Identity()
    batch = torch.randn((2, 2, 9, 10), generator=torch.Generator().manual_seed(1))
    found = network(batch).double()
    expected = torch.zeros(2, 2, 5, 2, 2, dtype=torch.float64)
    # Cells of adaptive pooling on 7 x 8 places: rows 0-3 and 3-6, columns 0-3 and 4-7.
    cells = [(range(0, 4), range(3, 7)), (range(0, 4), range(4, 8))]
    filters, offsets = tensors["filters"].double(), tensors["offsets"].double()
    for image in range(2):
        for i, rows in enumerate(cells[0]):
            for j, columns in enumerate(cells[1]):
                for row in rows:
                    for column in columns:
                        patch = batch[image, :, row : row + 3, column : column + 3].double()
                        patch = patch - patch.mean()
                        patch = patch / (patch.square().mean() + FLAT).sqrt()
                        response = (filters * patch).sum((1, 2, 3)) - offsets
                        size = len(rows) * len(columns)
                        for sign, signed in enumerate((response, -response)):
                            expected[image, sign, :, i, j] += (signed - 0.3).clamp_min(0) / size
    assert torch.allclose(found, expected.flatten(1), atol=1e-4)


def test_filters_are_whitened_patches_of_length_one():
    draws = torch.Generator().manual_seed(0)
    scale = (torch.full((2,), 127.0), torch.full((2,), 74.0))
    patches = random_patches(images(), 5000, 3, draws, scale)
    assert patches.mean(1).abs().max() < 1e-6
    mean = patches.mean(0)
    whiten = whitening(patches - mean, 0.01)
    values = torch.linalg.eigvalsh(torch.cov(((patches - mean) @ whiten).T))
    assert values[0] < 0.01  # patches have mean 0: one direction is empty
    assert values[1] > 0.9 and values[-1] < 1.01
    tensors = Patches(filters=7, size=3, whitening=0.1).train(None, images(), None, CPU).tensors
    assert tensors["filters"].mean((1, 2, 3)).abs().max() < 1e-6
    assert not torch.equal(tensors["filters"][0], tensors["filters"][1])


def test_images_without_shapes_are_refused():
    # All filters would be alike, or no numbers.
    with pytest.raises(InputError, match="one colour"):
        Patches(size=3).train(None, images() * 0, None, CPU)
    with pytest.raises(InputError, match=r"pretrain\.size .* got 12"):
        Patches(size=12).train(None, images(), None, CPU)
    with pytest.raises(InputError, match="image height"):
        PatchNetwork(2, (6, 6, 1), size=6)


def run(overrides, environment):
    return record_of(compose_cell([*NPZ, "model=ridge", *overrides]), environment)


def test_parts_are_cached_as_if_alone_and_whatever_the_encoder(environment):
    # An hour of contrastive training would be repeated beside the patches.
    def cached():
        return len(list((environment.data_dir / "pretrained").glob("*.safetensors")))

    patches = ["pretrain=patches", *(f"pretrain.{text}" for text in FEW)]
    alone = run(patches, environment)
    assert alone["pretrain"] == "patches" and alone["eps_spent"] == 4 and cached() == 1
    run([*patches, "encoder=resnet18_w16"], environment)
    assert cached() == 1
    trained = run([f"pretrain.{text}" for text in SHORT], environment)
    assert cached() == 2
    both = run(["pretrain=patches_simclr", *PARTS], environment)
    mirrored = run(["pretrain=mirrored", *PARTS], environment)  # from the same files
    assert cached() == 2 and mirrored["notes"] == both["notes"]
    for name, part in (("patches", alone), ("simclr", trained)):
        assert both["notes"][f"{name}_pretrained_sha256"] == part["notes"]["pretrained_sha256"]
    assert [each["pretrain"] for each in (both, mirrored)] == ["patches_simclr", "mirrored"]
    assert both["accuracy"] > 0.6 and mirrored["accuracy"] > 0.6


def test_an_image_and_its_mirror_image_have_the_same_features():
    draws = torch.Generator().manual_seed(1)
    batch = torch.randn((2, 2, 9, 10), generator=draws)
    parts = {"one": Patches(filters=5, size=3), "two": Patches(filters=4, size=4, seed=1)}
    found = []
    for recipe in (Combined(parts), Mirrored(parts)):
        network = recipe.network(None, None)(num_classes=3, image_shape=(9, 10, 2))
        tensors = [part.train(None, images(), None, CPU).tensors for part in parts.values()]
        weights = {
            f"parts.{number}.{key}": values
            for number, part in enumerate(tensors)
            for key, values in part.items()
        }
        network.load_state_dict(weights, strict=False)
        network.head = torch.nn.Identity()
        found.append((network(batch), network(batch.flip(-1))))
    (plain, other), (mirrored, mirrored_other) = found
    assert not torch.allclose(plain, other, atol=1e-3)
    assert torch.allclose(mirrored, mirrored_other, atol=1e-6)
    assert torch.allclose(mirrored, (plain + other) / 2, atol=1e-6)
