"""Names of layers, initialisations, optimizers and schedules, as types for settings.

The registries of `nn` and `optim` have the same names; these are literal so that settings can be
read, checked and listed without importing torch.
"""

from typing import Final, Literal

Activation = Literal[  # keys of `nn.activations.ACTIVATIONS`
    "elu",
    "gelu",
    "gelu_exact",
    "gelu_sigmoid",
    "leaky_relu",
    "linear",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "tanh",
]
ACTIVATIONS_WITH_ALPHA: Final = ("elu", "leaky_relu")  # those with a constant α
CellName = Literal["rnn", "rnn_relu", "gru", "gru_reset_first", "lstm"]  # keys of `nn.rnn.CELLS`
# those of `nn.attention_scores.ATTENTION_SCORES`
ScoreName = Literal[
    "dot", "scaled_dot", "additive", "general", "scaled_general", "concat", "cosine", "gaussian"
]
NormName = Literal["batch", "layer", "none", "rms"]  # keys of `nn.norm.NORMS`

DEFAULT_INIT: Final = "default"  # the model's own initialisation
InitName = Literal[  # `DEFAULT_INIT` and the keys of `nn.init.INITS`
    "default",
    "constant",
    "depth_scaled",
    "kaiming",
    "kaiming_out",
    "kaiming_uniform",
    "lecun",
    "normal",
    "orthogonal",
    "xavier",
    "xavier_normal",
    "zero",
]
FULL_BATCH: Final = "gradient_descent"  # the optimizer whose steps each use all the training data
OptimizerName = Literal[  # keys of `optim.OPTIMIZERS`
    "adadelta",
    "adagrad",
    "adam",
    "adamw",
    "averaged_momentum",
    "gradient_descent",
    "lamb",
    "lamb_unclamped",
    "lars",
    "lbfgs",
    "momentum",
    "nadam",
    "nadam_lookahead",
    "nesterov",
    "nesterov_lookahead",
    "newton",
    "rmsprop",
    "sgd",
]
SwitchName = Literal[  # those whose step is a combination of gradients, keys of `optim.SWITCHES`
    "averaged_momentum", "momentum", "nesterov", "nesterov_lookahead", "sgd"
]
ScheduleName = Literal[  # keys of `optim.SCHEDULES`
    "constant", "cosine", "inverse_sqrt", "linear", "none", "one_cycle", "pid", "step"
]
