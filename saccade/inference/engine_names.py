"""Names of the decoder engines. Does not import torch."""

DECODER_ENGINES = {
    "fused": "fewer and larger operations, for a Transformer or a GPT; else the model itself",
    "torch": "the model itself",
}
