r"""Concepts as data to draw: attention scores, positions, losses, reading orders, weight decay,
powers of a matrix, prefix codes.

Each function returns a figure of `saccade.inspection.figures`.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from saccade.data.text.lm_batching import SEGMENT_ORDERS
from saccade.inspection.figures import (
    HeatMap,
    HeatMapGrid,
    LinePanel,
    LinePanels,
    PlotLine,
    Tree,
    TreeNode,
)
from saccade.nn.attention_scores import ATTENTION_SCORES, make_score
from saccade.nn.losses import MARGIN_LOSSES, huber_loss, l1_loss, mse_loss
from saccade.nn.positional_encoding import RotaryPositions, SinusoidalPositions
from saccade.types.arrays import FloatArray

LOSS_RANGE, LOSS_POINTS = 3.0, 241
READ_TOKENS = 96  # of the text whose reading is drawn
DECAY_CURVATURE = (4.0, 0.5)  # of the quadratic loss along its two axes
DECAY_OPTIMUM = (1.0, 2.0)
WEIGHT_DECAYS = (0.0, 0.1, 0.5, 2.0)


# --- attention ------------------------------------------------------------------------------------


def score_maps(queries: int, keys: int, width: int, seed: int) -> HeatMapGrid:
    r"""Return softmax(score(q, k)) of every attention score for the same queries and keys.

    Queries and keys are standard normal; learned matrices have their initial values. A score with
    a large spread, such as the dot product of wide vectors, has weights near 0 and 1.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        q = torch.randn(queries, width, dtype=torch.float64)
        k = torch.randn(keys, width, dtype=torch.float64)
        every = {name: make_score(name, width).double()(q, k) for name in ATTENTION_SCORES}
    maps = []
    for name, scores in every.items():
        values = scores.numpy()
        title = f"{name}: scores {values.min():.2g} to {values.max():.2g}"
        maps.append(
            HeatMap(
                scores.softmax(-1).numpy(),
                [f"q{row + 1}" for row in range(queries)],
                [f"k{column + 1}" for column in range(keys)],
                title,
                "key",
                "query",
                (0.0, 1.0),
            )
        )
    return HeatMapGrid(maps, f"attention weights of the same queries and keys, width {width}")


def position_maps(length: int, width: int) -> HeatMapGrid:
    r"""Return sinusoidal encodings, their dot products, and the scores of rotary positions.

    p_s · p_t = Σ_i cos((s − t) / 10000^{2i/D}) depends on the distance alone. Rotary positions give
    equal queries and keys (all ones here) the score qᵀ R_{t−s} q.
    """
    with torch.no_grad():
        codes = SinusoidalPositions(width)(0, length).double()
        ones = torch.ones(1, 1, length, width, dtype=torch.float64)
        rotated = RotaryPositions(width).double().rotate(ones, 0)[0, 0]
        rotary = (rotated @ rotated.T / width).numpy()
    positions = [str(at) for at in range(length)]
    dimensions = [str(at) for at in range(width)]
    products = (codes @ codes.T).numpy()
    return HeatMapGrid(
        [
            HeatMap(codes.numpy(), positions, dimensions, "sinusoidal encodings p_t", "dimension"),
            HeatMap(products, positions, positions, "dot products p_s · p_t", "t", "s"),
            HeatMap(rotary, positions, positions, "rotary: score of equal vectors", "t", "s"),
        ],
        f"positional encodings, {length} positions, width {width}",
    )


# --- losses and optimisation ----------------------------------------------------------------------


def loss_panels() -> LinePanels:
    """Return losses of regression by residual and of classification by margin, with derivatives."""
    half = LOSS_POINTS // 2
    points = torch.arange(-half, half + 1, dtype=torch.float64) * (LOSS_RANGE / half)
    zero = torch.zeros_like(points)
    residual = {
        "squared": lambda r: mse_loss(r, zero, reduction="none"),
        "absolute": lambda r: l1_loss(r, zero, reduction="none"),
        "Huber, δ = 1": lambda r: huber_loss(r, zero, reduction="none"),
    }
    margin = {name: (lambda m, f=f: f(m, reduction="none")) for name, f in MARGIN_LOSSES.items()}
    panels = []
    for title, x_label, losses in (
        ("regression", "residual ŷ - y", residual),
        ("classification", "margin y f(x)", margin),
    ):
        values, slopes = [], []
        for name, loss in losses.items():
            x = points.clone().requires_grad_()
            y = loss(x)
            values.append(PlotLine(name, points.numpy(), y.detach().numpy()))
            if y.requires_grad:
                [slope] = torch.autograd.grad(y.sum(), x)
                slopes.append(PlotLine(name, points.numpy(), slope.numpy()))
        panels.append(LinePanel(title, values, x_label, "loss"))
        panels.append(LinePanel(f"{title}: derivatives", slopes, x_label, "slope"))
    return LinePanels(panels, "losses side by side")


def weight_decay_paths(learning_rate: float, steps: int) -> LinePanels:
    r"""Return the paths of gradient descent on a quadratic loss with several weight decays λ.

    f(w) = ½ (w − w*)ᵀ A (w − w*) with A diagonal; the step w ← w − η (A (w − w*) + λ w) ends at
    (A + λ I)⁻¹ A w*: the axis with little curvature shrinks most.
    """
    curvature, optimum = np.array(DECAY_CURVATURE), np.array(DECAY_OPTIMUM)
    paths, norms, ends = [], [], []
    for decay in WEIGHT_DECAYS:
        w = np.zeros(2)
        path = [w]
        for _ in range(steps):
            w = w - learning_rate * (curvature * (w - optimum) + decay * w)
            path.append(w)
        found = np.stack(path)
        label = f"λ = {decay:g}"
        paths.append(PlotLine(label, found[:, 0], found[:, 1]))
        norms.append(PlotLine(label, np.arange(steps + 1.0), np.linalg.norm(found, axis=1)))
        end = curvature * optimum / (curvature + decay)
        ends.append(("", float(end[0]), float(end[1])))
    return LinePanels(
        [
            LinePanel("path of the weights; points: (A + λI)⁻¹ A w*", paths, "w₁", "w₂", ends),
            LinePanel("norm of the weights", norms, "step", "‖w‖"),
        ],
        "weight decay",
    )


def power_iteration(size: int, steps: int, seed: int) -> LinePanels:
    r"""Return how Mᵏx tends to the main eigenvector, and bounds on the eigenvalues of a product.

    M is a random symmetric matrix with positive entries. The angle of Mᵏx to the eigenvector of λ₁
    falls as |λ₂/λ₁|ᵏ. The eigenvalues of a product M_k … M_1 of random matrices lie between the
    products of the smallest and of the largest singular values, Π σ_min ≤ |λ| ≤ Π σ_max.
    """
    rng = np.random.default_rng(seed)
    half = rng.random((size, size))
    matrix = half + half.T
    values, vectors = np.linalg.eigh(matrix)
    order = np.argsort(-np.abs(values)).tolist()
    main: FloatArray = vectors[:, order[0]]
    x: FloatArray = rng.standard_normal(size)
    angles: list[float] = []
    for _ in range(steps + 1):
        along = float(main @ x)
        across = float(np.linalg.norm(x - along * main))
        angles.append(across / max(abs(along), 1e-300))
        x = matrix @ x / np.linalg.norm(matrix @ x)
    rate = abs(float(values[order[1]] / values[order[0]]))
    k = np.arange(steps + 1.0)
    predicted = angles[0] * rate**k
    logs = [np.log10(np.maximum(line, 1e-300)) for line in (np.array(angles), predicted)]
    product = np.eye(size)
    low, high, largest, smallest = [0.0], [0.0], [0.0], [0.0]
    for _ in range(steps):
        factor = rng.standard_normal((size, size)) / np.sqrt(size)
        singular = np.linalg.svd(factor, compute_uv=False)
        product = factor @ product
        found = np.abs(np.linalg.eigvals(product))
        high.append(high[-1] + float(np.log10(singular[0])))
        low.append(low[-1] + float(np.log10(singular[-1])))
        largest.append(float(np.log10(found.max())))
        smallest.append(float(np.log10(max(found.min(), 1e-300))))
    lines = {"Π σ_max": high, "largest |λ|": largest, "smallest |λ|": smallest, "Π σ_min": low}
    return LinePanels(
        [
            LinePanel(
                "tangent of the angle of Mᵏx to the main eigenvector",
                [PlotLine("measured", k, logs[0]), PlotLine("|λ₂/λ₁|ᵏ", k, logs[1])],
                "k",
                "log₁₀",
            ),
            LinePanel(
                "eigenvalues of a product of k matrices",
                [PlotLine(name, k, np.array(moduli)) for name, moduli in lines.items()],
                "k",
                "log₁₀",
            ),
        ],
        f"powers and products of {size} × {size} matrices",
    )


# --- texts ----------------------------------------------------------------------------------------


def reading_orders(rows: int, segment_length: int, seed: int) -> HeatMapGrid:
    """Return which position of a text each row of the first batches reads, by segment order.

    Sequential: row i of a batch continues row i of the batch before, so that its state carries
    over. Random: any segment follows any other, and each starts from zero.
    """
    ids = np.arange(READ_TOKENS)
    maps = []
    for order in sorted(SEGMENT_ORDERS, reverse=True):
        batches = list(SEGMENT_ORDERS[order](ids, rows, segment_length, seed, 0))
        width = sum(batch.inputs.shape[1] for batch in batches)
        values = np.full((rows, width), np.nan)
        columns: list[str] = []
        for number, batch in enumerate(batches, start=1):
            start = len(columns)
            T = batch.inputs.shape[1]
            read = batch.inputs.double().numpy()
            if batch.lengths is not None:
                read[np.arange(T) >= batch.lengths.numpy()[:, None]] = np.nan
            values[: len(read), start : start + T] = read
            columns += [f"batch{number}", *[""] * (T - 1)]
        names = [f"row{row + 1}" for row in range(rows)]
        maps.append(
            HeatMap(
                values,
                names,
                columns,
                f"{order}: position in the text",
                "batches",
                "",
                (0.0, float(READ_TOKENS)),
            )
        )
    return HeatMapGrid(maps, f"a text of {READ_TOKENS} tokens in segments of {segment_length}")


def prefix_code_tree(code: Mapping[str, str], weights: Mapping[str, float], title: str) -> Tree:
    """Return the tree of a prefix code; inner nodes have the sum of the weights below them."""
    total = sum(weights.values()) or 1.0
    prefixes = sorted({word[:end] for word in code.values() for end in range(len(word) + 1)})
    symbols = {word: symbol for symbol, word in code.items()}
    index = {prefix: number for number, prefix in enumerate(prefixes)}
    nodes = []
    for prefix in prefixes:  # sorted: a prefix comes before its extensions
        below = sum(weights[symbol] for symbol, word in code.items() if word.startswith(prefix))
        parent = index[prefix[:-1]] if prefix else -1
        label = symbols.get(prefix, "•")
        bits = f"{prefix}  " if prefix else ""
        nodes.append(TreeNode(parent, label, f"{bits}{below / total:.3g}"))
    return Tree(nodes, title)


def markov_maps(
    states: Sequence[str], powers: Mapping[int, FloatArray], stationary: FloatArray
) -> HeatMapGrid:
    """Return powers of a transition matrix and the stationary distribution as heat maps."""
    maps = [
        HeatMap(
            matrix,
            states,
            states,
            "transition matrix P" if steps == 1 else f"after {steps} steps: P^{steps}",
            "next state" if steps == 1 else "later state",
            "state",
        )
        for steps, matrix in powers.items()
    ]
    row = HeatMap(stationary[None], ["π"], states, "stationary distribution", "state")
    return HeatMapGrid([*maps, row], "Markov chain")
