"""Environment steps per second of DQN with learning, against stable-baselines3's.

    make bench-control

Both train on CartPole-v1 with the same settings: two hidden layers, Adam, Huber loss, batches of
64, one update for two steps of the environment, a copy to the target network every 100 updates,
linear ε. Each training has a process of its own and one thread; they alternate. The time runs from
the first update to the last; evaluations are left out.

Goal: a ratio of 1.5.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

STARTS, RATE, BATCH, MEMORY, TARGET = 1000, 1e-3, 64, 50_000, 100
EXPLORATION, EPSILON, DISCOUNT = 8000, 0.04, 0.99
OURS, THEIRS = "saccade", "stable-baselines3"


def train_ours(steps: int, hidden: int, seed: int) -> dict[str, Any]:
    """Train with Saccade; return the times."""
    import torch

    from saccade.recipes.resolve import resolve_recipe
    from saccade.runs.train import TrainOptions, train_recipe
    from saccade.training.loop import StepEvent

    torch.set_num_threads(1)
    updates = (steps - STARTS) // 2
    changes = {
        "model.hidden": hidden,
        "model.target_interval": TARGET,
        "model.replay_size": MEMORY,
        "model.learning_starts": STARTS,
        "model.collect_steps": 2,
        "model.exploration_steps": EXPLORATION,
        "model.epsilon_end": EPSILON,
        "model.discount": DISCOUNT,
        "train.learning_rate": RATE,
        "train.batch_tokens": BATCH,
        "train.steps": updates,
        "train.evaluate_every": updates,
        "train.seed": seed,
        "data.dev_episodes": 1,
    }
    recipe = resolve_recipe("control", data="CartPole-v1", model="dqn", changes=changes).recipe
    times: list[tuple[float, float]] = []

    def on_event(event: Any) -> None:
        if isinstance(event, StepEvent) and event.step in (1, updates):
            times.append((time.perf_counter(), time.process_time()))

    with TemporaryDirectory() as folder:
        train_recipe(recipe, Path(folder) / "run", TrainOptions(on_event=on_event))
    return rates(times, 2 * (updates - 1))


def train_theirs(steps: int, hidden: int, seed: int) -> dict[str, Any]:
    """Train with stable-baselines3; return the times."""
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import BaseCallback

    torch.set_num_threads(1)
    times: list[tuple[float, float]] = []

    class Clock(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps in (STARTS + 1, steps):
                times.append((time.perf_counter(), time.process_time()))
            return True

    model = DQN(
        "MlpPolicy",
        "CartPole-v1",
        learning_rate=RATE,
        buffer_size=MEMORY,
        learning_starts=STARTS,
        batch_size=BATCH,
        gamma=DISCOUNT,
        train_freq=2,
        gradient_steps=1,
        target_update_interval=2 * TARGET,
        exploration_fraction=EXPLORATION / steps,
        exploration_final_eps=EPSILON,
        policy_kwargs={"net_arch": [hidden, hidden]},
        device="cpu",
        seed=seed,
    )
    model.learn(steps, callback=Clock())
    return rates(times, steps - STARTS - 1)


def rates(times: list[tuple[float, float]], steps: int) -> dict[str, Any]:
    """Return environment steps per second: of the clock, and of the processor's time."""
    (start, busy), (end, busy_end) = times
    return {"rate": steps / (end - start), "cpu_rate": steps / (busy_end - busy)}


def measure(name: str, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Run one training in a process of its own."""
    command = [sys.executable, __file__, "--only", name, "--seed", str(seed)]
    command += ["--steps", str(options.steps), "--hidden", str(options.hidden)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure both in alternation, or train one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=12_000, help="environment steps of a training")
    parser.add_argument("--hidden", type=int, default=64, help="units of each hidden layer")
    parser.add_argument("--rounds", type=int, default=5, help="trainings of each")
    parser.add_argument("--only", choices=[OURS, THEIRS], help="train one of them once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="save all results to this file")
    options = parser.parse_args()
    if options.only is not None:
        train = train_ours if options.only == OURS else train_theirs
        print(json.dumps(train(options.steps, options.hidden, options.seed)))
        return
    found: dict[str, list[dict[str, Any]]] = {OURS: [], THEIRS: []}
    for turn in range(options.rounds):
        for name, results in found.items():
            results.append(measure(name, options, turn + 1))
            rate = results[-1]
            print(f"{name:18} {rate['rate']:8.0f} steps/s, {rate['cpu_rate']:8.0f} per CPU second")
    for kind in ("rate", "cpu_rate"):
        ours, theirs = (median(one[kind] for one in found[name]) for name in (OURS, THEIRS))
        each = [a[kind] / b[kind] for a, b in zip(found[OURS], found[THEIRS], strict=True)]
        print(
            f"{kind}: {ours:.0f} and {theirs:.0f} steps/s, ratio {median(each):.2f} "
            f"({min(each):.2f} to {max(each):.2f})"
        )
    if options.json is not None:
        options.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
