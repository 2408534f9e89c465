"""`saccade look` of a run of the task control: one episode as an animation, lines or text."""

from pathlib import Path

from saccade.cli.console import print_json, stderr_console, stdout_console
from saccade.cli.opening import open_run

MAX_TEXT_WIDTH = 120


def print_episode(
    folder: Path, number: int, explore: bool, terminal: bool, save: Path | None, json: bool
) -> None:
    """Run an episode; save it, and print it as text or what it amounts to."""
    run = open_run(folder)
    is_animation = save is not None and save.suffix.lower() == ".gif"
    mode = "rgb_array" if is_animation else "ansi" if terminal else None
    found = run.episode(number, explore=explore, mode=mode)
    if save is not None:
        for message in (*found.save(save), f"Wrote the episode to {save}."):
            stderr_console().print(message)
    if json:
        print_json(found.to_dict())
        return
    record = found.record
    if terminal:
        print(found.terminal(min(stdout_console().width, MAX_TEXT_WIDTH)))
    else:
        end = "cut off by the time limit" if record.is_cut_off else "ended by the environment"
        print(f"return {record.total:.4g} in {len(record.rewards):,} steps, {end}")
    if record.overestimation is not None:
        print(
            f"value of the steps minus the discounted return obtained from them, on average: "
            f"{record.overestimation:+.4g}"
        )
