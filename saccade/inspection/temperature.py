r"""The temperature of contrastive losses, and the bound on mutual information, as data to draw."""

import numpy as np
import torch
from torch import Tensor

from saccade.inspection.figures import LinePanel, LinePanels, PlotLine
from saccade.nn.contrastive import alignment, uniformity
from saccade.nn.noise_contrast import info_nce, mutual_information_bound, sentence_contrast

TEMPERATURES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
WEIGHT_TEMPERATURES = (0.05, 0.2, 1.0)  # temperatures of the first panel
GROUPS, GROUP_SIZE, WIDTH = 8, 8, 3  # of the points that are trained
SPREAD = 0.3  # of the two views of a point
STEPS, RATE = 150, 0.05
INFORMATION = (0.5, 2.0, 5.0)  # nats
CANDIDATES = (2, 4, 8, 16, 32, 64, 128, 256)
DRAWS = 2048  # queries of each estimate of a bound


def temperature_panels(seed: int) -> LinePanels:
    r"""Return four effects of τ and of the number of candidates on InfoNCE.

    - the weight of a negative in the gradient, ∂ℓ/∂s_j ∝ exp(cos_j / τ): a small τ counts the
      hardest negatives alone (Wang and Liu 2021);
    - alignment and uniformity (Wang and Isola 2020) of vectors that were trained with τ;
    - the bound log N - L on mutual information, which does not exceed log N.
    """
    aligned, even = zip(*(train_points(t, seed) for t in TEMPERATURES), strict=True)
    logs = np.log10(np.array(TEMPERATURES))
    return LinePanels(
        [
            LinePanel(
                "weight of a negative by its cosine", _negative_weights(), "cosine", "relative"
            ),
            LinePanel(
                "trained vectors: alignment (0: views are equal)",
                [PlotLine("alignment", logs, np.array(aligned))],
                "log₁₀ τ",
                "mean squared distance",
            ),
            LinePanel(
                "trained vectors: uniformity (lower: more even)",
                [PlotLine("uniformity", logs, np.array(even))],
                "log₁₀ τ",
                "log mean exp(-2 d²)",
            ),
            LinePanel("bound on mutual information, log N - L", _bounds(seed), "log₂ N", "nats"),
        ],
        "InfoNCE: temperature τ and number of candidates N",
    )


def _negative_weights() -> list[PlotLine]:
    cosines = np.linspace(-1, 1, 81)
    return [PlotLine(f"τ = {t:g}", cosines, np.exp((cosines - 1) / t)) for t in WEIGHT_TEMPERATURES]


def train_points(temperature: float, seed: int) -> tuple[float, float]:
    """Return alignment and uniformity of vectors of a linear map, trained with InfoNCE.

    The points are in groups, whose members resemble each other more than two views differ.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    centres = normal(GROUPS, 1, 8)
    points = (centres + SPREAD * normal(GROUPS, GROUP_SIZE, 8)).flatten(0, 1)
    weight = (normal(8, WIDTH) / 8**0.5).requires_grad_()
    optimizer = torch.optim.Adam([weight], RATE)
    for _ in range(STEPS):
        one, two = (points + SPREAD * normal(*points.shape) for _ in range(2))
        loss = sentence_contrast(one @ weight, two @ weight, temperature=temperature).each.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        one, two = (points + SPREAD * normal(*points.shape) for _ in range(2))
        return alignment(one @ weight, two @ weight).item(), uniformity(one @ weight).item()


def _bounds(seed: int) -> list[PlotLine]:
    logs = np.log2(np.array(CANDIDATES))
    lines = [
        PlotLine(
            f"I = {nats:g}", logs, np.array([gaussian_bound(nats, n, seed) for n in CANDIDATES])
        )
        for nats in INFORMATION
    ]
    return [*lines, PlotLine("log N", logs, np.log(np.array(CANDIDATES)))]


def gaussian_bound(nats: float, candidates: int, seed: int) -> float:
    r"""Return the InfoNCE bound for two Gaussians of known mutual information.

    I = -½ log(1 - ρ²). The score is the best one, log p(y | x) / p(y).
    """
    generator = torch.Generator().manual_seed(seed)
    spread = float(np.exp(-2 * nats))  # 1 - ρ²
    count = max(1, DRAWS // candidates)
    x, noise = torch.randn(2, count, candidates, generator=generator, dtype=torch.float64)
    rho = (1 - spread) ** 0.5
    y = rho * x + spread**0.5 * noise
    scores = 0.5 * y[:, None] ** 2 - 0.5 * (y[:, None] - rho * x[:, :, None]) ** 2 / spread
    losses = torch.stack([info_nce(batch).each.mean() for batch in scores])
    return float(mutual_information_bound(losses.mean(), candidates))
