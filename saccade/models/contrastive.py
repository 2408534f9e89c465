r"""An image network without its output layer, and a projection for contrastive learning.

    h = embed(image)                    (B, D)    the features, which are used after training
    z = W_2 relu(bn(W_1 h)) + b_2       (B, D')   compared by the loss, and left out afterwards

SimCLR (Chen et al. 2020) trains z; h, the layer before, is the better feature for other tasks.
"""

from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.image_base import ImageNetwork, meta_images
from saccade.nn.meta import run_on_meta
from saccade.types.shapes import Images


class ContrastiveNetwork(nn.Module):
    """An encoder of images and the projection of its features.

    Args:
        encoder: an image network; its output layer is removed.
        hidden: width of the hidden layer of the projection.
        width: width of the projected vectors.
    """

    def __init__(self, encoder: ImageNetwork, hidden: int, width: int):
        super().__init__()
        encoder.set_submodule(encoder.output_name, nn.Identity())
        self.encoder = encoder
        self.projection = nn.Sequential(
            nn.Linear(embedding_width(encoder), hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, width),
        )

    def embed(self, images: Images) -> Float[Tensor, "B D"]:
        """Return the features of each image."""
        features: Tensor = self.encoder.embed(images)
        return features

    def forward(self, images: Images) -> Float[Tensor, "B D"]:
        """Return the projected features of each image."""
        return self.projection(self.embed(images))


class _Embedding(nn.Module):
    """The features of a network as a module, for shapes without values."""

    def __init__(self, network: ImageNetwork):
        super().__init__()
        self.network = network

    def forward(self, images: Images) -> Float[Tensor, "B D"]:
        """Return the features of each image."""
        return self.network.embed(images)


def embedding_width(network: ImageNetwork) -> int:
    """Return the number of features of an image."""
    was_training = network.training
    network.eval()  # batch norm of one image has no variance in training
    features = run_on_meta(_Embedding(network), meta_images(network, *network.image_shape))
    network.train(was_training)
    return int(features.shape[1])
