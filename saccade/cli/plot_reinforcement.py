"""Plots of `saccade plot` about reinforcement learning: bandits, planning, paths, off-policy."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from saccade.cli.console import MAX_TERMINAL_WIDTH, has_colour, make_table, stdout_console
from saccade.cli.plot_views import finish_plot
from saccade.errors import ConfigError

if TYPE_CHECKING:
    from saccade.estimators.reinforcement.config import EpisodicConfig
    from saccade.estimators.reinforcement.mdp import TransitionTable
    from saccade.estimators.reinforcement.tabular import TabularLearner
    from saccade.inspection.figures import HeatMap

DEFAULT_ARMS = "0.9,0.8,0.8,0.7,0.6"
PATH_METHODS = ("q_learning", "sarsa", "expected_sarsa", "double_q", "monte_carlo")
BEHAVIOURS = (1.0, 0.5, 0.1)  # ε of the policies that Q-learning learns from
TARGET_EPSILONS = (0.8, 0.1)  # of the ε-greedy policies that are estimated
FINAL_SHARE = 5  # the mean return is over this part of the episodes, the last ones
HORIZON = 100  # steps at which an episode is cut
MIN_ERROR = 1e-12
GREEDY_EPISODES = 20  # of each learned policy


class PlotOutput(NamedTuple):
    """Options of every plot."""

    save: Path | None
    json: bool


def plot_bandits(arms: str, size: tuple[int, int, int], output: PlotOutput) -> None:
    """Print and plot the regret of exploration methods; `size`: steps, runs and seed."""
    import math

    from saccade.estimators.reinforcement.bandits import BANDIT_METHODS, parse_arms, run_bandit
    from saccade.inspection.reinforcement import bandit_panels

    try:
        found = parse_arms([float(text) for text in arms.split(",")])
    except ValueError as error:
        message = str(error)
        if not message.startswith("got "):
            message = f"got --arms {arms!r}; expected probabilities: --arms {DEFAULT_ARMS}."
        raise ConfigError(message) from None
    (steps, runs, seed), constant = size, found.lower_bound()
    table = make_table("method", f"regret after {steps} steps", "± (95 %)", "best arm, last tenth")
    regrets, best = {}, {}
    for name, method in BANDIT_METHODS.items():
        result = run_bandit(method, found, steps=steps, runs=runs, seed=seed)
        regrets[name], best[name] = result.regret.mean(axis=0), result.best
        mean, deviation = result.final_regret()
        late = float(result.best[-max(steps // 10, 1) :].mean())
        table.add_row(name, f"{mean:.2f}", f"{1.96 * deviation:.2f}", f"{late:.3f}")
    bound = constant * math.log(steps)
    closing = (
        f"Lower bound (Lai and Robbins 1985): {constant:.3g} · ln T = {bound:.3g}, for T → ∞ and "
        "methods that are consistent on all bandits; after few steps the regret may be smaller."
    )
    title = f"{len(found.means)} arms with the means {arms}, mean of {runs} runs"
    figure = bandit_panels(regrets, best, constant, title)
    finish_plot(figure, [table, "", closing], "the regret", *output)


def plot_planning(world: str, discount: float, output: PlotOutput) -> None:
    """Print and plot policy iteration and value iteration on the table of a world."""
    import numpy as np

    from saccade.estimators.reinforcement.mdp import deterministic_policy
    from saccade.estimators.reinforcement.planning import policy_iteration, value_iteration
    from saccade.inspection.reinforcement import planning_panels, policy_map

    table = _read_table(world)
    plans = {}
    rows = make_table("planner", "sweeps", "policies", "residual", "error", "value at the start")
    try:
        for name, planner in (
            ("policy iteration", policy_iteration),
            ("value iteration", value_iteration),
        ):
            plan = plans[name] = planner(table, discount)
            exact = table.policy_values(
                deterministic_policy(plan.actions, table.num_actions), discount
            )
            policies = str(len(plan.evaluations)) if name == "policy iteration" else "-"
            difference = np.abs(plan.values - exact).max()
            rows.add_row(
                name,
                f"{plan.sweeps:,}",
                policies,
                f"{plan.residuals[-1]:.2g}",
                f"{difference:.2g}",
                f"{float(table.start @ plan.values):.6g}",
            )
    except ValueError as error:
        raise ConfigError(f"{world}: {error}") from None
    plan = plans["policy iteration"]
    figure = planning_panels(
        {name: plan.residuals for name, plan in plans.items()},
        plan.evaluations,
        f"{world}, γ = {discount:g}",
    )
    lines: list[object] = [rows]
    if table.grid is not None:
        map = policy_map(
            plan.action_values,
            table.arrows,
            table.grid,
            f"{world}: value and best action",
            table.reachable,
        )
        lines += ["", _map_lines(map)]
    lines += ["", "error: largest difference to the solution of the linear equations."]
    finish_plot(figure, lines, "the residuals", *output)


def plot_paths(world: str, episodes: int, runs: tuple[int, int], output: PlotOutput) -> None:
    """Print and plot the states that greedy policies visit; `runs`: number, first seed."""
    import numpy as np

    from saccade.inspection.reinforcement import visit_maps

    (seeds, seed), table = runs, _read_table(world)
    if table.grid is None:
        raise ConfigError(
            f"got the world {world}, whose states are no grid; expected CliffWalking-v1 or "
            "FrozenLake-v1."
        )
    rows = make_table(
        "method", "policies", "return while learning", "± (95 %)", "greedy return", "greedy steps"
    )
    visits, titles = {}, {}
    for method in PATH_METHODS:
        results = [_learn(table, method, episodes, seed + run) for run in range(seeds)]
        late = [run.returns[-max(episodes // FINAL_SHARE, 1) :].mean() for run in results]
        played = [_play_greedy(table, run) for run in results]
        shares, returns, lengths = (np.mean(values, axis=0) for values in zip(*played, strict=True))
        error = 1.96 * np.std(late, ddof=1) / seeds**0.5 if seeds > 1 else float("nan")
        kind = "on-policy" if results[0].policies(0).is_on_policy else "off-policy"
        rows.add_row(
            method, kind, f"{np.mean(late):.1f}", f"{error:.1f}", f"{returns:.1f}", f"{lengths:.1f}"
        )
        visits[method] = shares
        titles[method] = f"{method} ({kind}): greedy {returns:.1f}, learning {np.mean(late):.1f}"
    heading = f"{world}: share of {seeds} seeds whose greedy policy visits a cell"
    figure = visit_maps(visits, titles, table.grid, table.reachable | table.terminal, heading)
    lines: list[object] = [rows, ""]
    for map in figure.maps[:2]:
        lines += [_map_lines(map), ""]
    lines.append(
        f"return while learning: mean of the last fifth of {episodes} episodes, ε = 0.1; greedy: "
        "afterwards, without exploration."
    )
    finish_plot(figure, lines, "the visited cells", *output)


def plot_off_policy(world: str, discount: float, runs: tuple[int, int], output: PlotOutput) -> None:
    """Print and plot errors of Q-learning and of off-policy estimates; `runs` as above."""
    import numpy as np

    from saccade.inspection.reinforcement import error_panels

    (seeds, seed), table = runs, _read_table(world)
    try:
        learned, episodes = _q_errors(table, discount, seeds, seed)
        estimated, counts, rows = _estimate_errors(table, discount, seeds, seed)
    except ValueError as error:
        raise ConfigError(f"{world}: {error}") from None
    errors = make_table(
        "behaviour of Q-learning", f"largest error of q, {episodes[-1]:,.0f} episodes"
    )
    for name, values in learned.items():
        errors.add_row(name, f"{values[-1]:.4f}")
    figure = error_panels(
        learned, episodes, estimated, np.log2(counts), f"{world}, γ = {discount:g}, {seeds} seeds"
    )
    closing = (
        f"Estimates from {counts[-1]:,.0f} episodes of the uniformly random policy, {seeds} seeds. "
        "Ratios multiply over the steps: the more the policies differ, the larger the variance. "
        "Q-learning has none: the expectation over the next action is computed, not sampled."
    )
    finish_plot(figure, [errors, "", rows, "", closing], "the errors", *output)


def _q_errors(table: "TransitionTable", discount: float, seeds: int, seed: int) -> Any:
    """Return the largest error of q by behaviour, mean over seeds, and the episodes."""
    import numpy as np

    from saccade.estimators.reinforcement.planning import policy_iteration

    optimal = policy_iteration(table, discount).action_values
    episodes = np.array([2**k * 100 for k in range(10)])
    settings = {"discount": discount, "learning_rate": 1.0, "learning_rate_power": 0.7}
    settings["initial_value"] = max(float(table.rewards.max()), 0.0)
    learned = {}
    for epsilon in BEHAVIOURS:
        errors = np.zeros((seeds, len(episodes)))
        for run in range(seeds):
            settings["epsilon_start"] = epsilon
            learner = _learner(table, "q_learning", int(episodes[-1]), seed + run, **settings)
            for column, until in enumerate(episodes.tolist()):
                learner.learn(table, max_steps=HORIZON, until=until)
                wrong = np.abs(learner.action_values - optimal)[table.reachable]
                errors[run, column] = wrong.max()
        learned[str(learner.policies(0).behaviour)] = errors.mean(axis=0)
    return learned, episodes.astype(float)


def _estimate_errors(table: "TransitionTable", discount: float, seeds: int, seed: int) -> Any:
    """Return errors of the estimators by number of episodes, and a table of the last ones."""
    import numpy as np

    from saccade.estimators.reinforcement.episodes import sample_episodes
    from saccade.estimators.reinforcement.importance_sampling import (
        OFF_POLICY_ESTIMATORS,
        estimate_off_policy,
        off_policy_moments,
    )
    from saccade.estimators.reinforcement.mdp import uniform_policy
    from saccade.estimators.reinforcement.planning import policy_iteration
    from saccade.estimators.reinforcement.policies import EpsilonGreedy

    behaviour, counts = uniform_policy(table), 2 ** np.arange(5, 13)
    values = policy_iteration(table, discount).action_values.round(9)
    batches = [
        sample_episodes(table, behaviour, int(counts[-1]), max_steps=HORIZON, seed=seed + run)
        for run in range(seeds)
    ]
    rows = make_table("target policy", "estimator", "exact value", "mean", "RMSE", "exact σ/√N")
    errors = {}
    for epsilon in TARGET_EPSILONS:
        policy = EpsilonGreedy(epsilon)
        target = policy.probabilities(values)
        exact = off_policy_moments(table, target, behaviour, discount, HORIZON)
        variances = {
            "ordinary": exact.ordinary_variance,
            "per_decision": exact.per_decision_variance,
        }
        for name in OFF_POLICY_ESTIMATORS:
            found = np.array(
                [
                    [
                        estimate_off_policy(
                            batch.first(count), target, behaviour, discount, name
                        ).value
                        for count in counts.tolist()
                    ]
                    for batch in batches
                ]
            )
            rmse = np.sqrt(((found - exact.value) ** 2).mean(axis=0))
            errors[f"{name}, ε = {epsilon:g}"] = np.log10(np.maximum(rmse, MIN_ERROR))
            deviation = (variances[name] / counts[-1]) ** 0.5 if name in variances else None
            rows.add_row(
                str(policy),
                name,
                f"{exact.value:.4f}",
                f"{found[:, -1].mean():.4f}",
                f"{rmse[-1]:.4f}",
                "-" if deviation is None else f"{deviation:.3g}",
            )
    return errors, counts.astype(float), rows


def _read_table(world: str) -> "TransitionTable":
    """Return the transitions of a world of Gymnasium."""
    from saccade.data.environments.config import EnvironmentConfig
    from saccade.data.environments.make import close_environment, make_environment
    from saccade.estimators.reinforcement.mdp import transition_table

    environment = make_environment(EnvironmentConfig(world=world))
    try:
        return transition_table(environment)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    finally:
        close_environment(environment)


def _learner(
    table: "TransitionTable", method: str, episodes: int, seed: int, **settings: Any
) -> "TabularLearner":
    from saccade.estimators.reinforcement.config import EPISODIC_CONFIGS
    from saccade.estimators.reinforcement.tabular import TabularLearner

    config: EpisodicConfig = EPISODIC_CONFIGS[method](episodes=episodes, **settings)
    return TabularLearner(config, table.num_states, table.num_actions, seed)


def _learn(table: "TransitionTable", method: str, episodes: int, seed: int) -> "TabularLearner":
    from saccade.data.environments.config import DEFAULT_MAX_STEPS

    learner = _learner(table, method, episodes, seed)
    learner.learn(table, max_steps=DEFAULT_MAX_STEPS)
    return learner


def _play_greedy(table: "TransitionTable", learner: "TabularLearner") -> Any:
    """Return the share of greedy episodes that visit each state, their return and length."""
    import numpy as np

    from saccade.estimators.reinforcement.episodes import sample_episodes
    from saccade.estimators.reinforcement.mdp import deterministic_policy

    policy = deterministic_policy(learner.action_values.argmax(axis=1), table.num_actions)
    batch = sample_episodes(table, policy, GREEDY_EPISODES, max_steps=100, seed=learner.seed)
    visited = np.zeros((GREEDY_EPISODES, table.num_states), bool)
    steps = np.arange(batch.states.shape[1]) <= batch.lengths[:, None]
    visited[np.nonzero(steps)[0], batch.states[steps]] = True
    return visited.mean(axis=0), batch.rewards.sum(axis=1).mean(), batch.lengths.mean()


def _map_lines(map: "HeatMap") -> str:
    from saccade.plots.figure_text import render_heat_map

    console = stdout_console()
    return render_heat_map(map, min(console.width, MAX_TERMINAL_WIDTH), has_colour(console))
