"""demo, train, copy."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.console import make_table, print_json, scores_table, stderr_console
from saccade.errors import ConfigError

if TYPE_CHECKING:
    from saccade.runs.run import Run, TrainResult

RecipeArgument = Annotated[
    str | None,
    typer.Argument(help="A recipe (see saccade list), a .toml, a file of pairs; with --on, a run."),
]
DataOption = Annotated[
    str | None, typer.Option(help="A file (two with a comma for a.en,a.de), or a set by name.")
]
TargetOption = Annotated[str | None, typer.Option(help="Of a table: the column to foretell.")]
ModelOption = Annotated[str | None, typer.Option(help="saccade list has them, task by task.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting, e.g. model.width=128."),
]
OutOption = Annotated[Path | None, typer.Option(help="The run's folder; otherwise runs/NAME.")]
ResumeOption = Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")]
InitFromOption = Annotated[
    Path | None, typer.Option("--init-from", help="Start from this run's weights and vocabulary.")
]
FinetuneOnOption = Annotated[
    str | None, typer.Option(help="Go on with a finished run: a file that it has not seen.")
]
OnlineOption = Annotated[
    bool, typer.Option("--online", help="With --on: answer each row, then learn from it.")
]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace a run that is there.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]


def train_command(
    what: RecipeArgument = None,
    data: DataOption = None,
    target: TargetOption = None,
    model: ModelOption = None,
    set: SetOption = None,
    out: OutOption = None,
    resume: ResumeOption = None,
    init_from: InitFromOption = None,
    finetune_on: FinetuneOnOption = None,
    online: OnlineOption = False,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    r"""Train a model.

    \b
    saccade train dates
    saccade train translate --data pairs.tsv --set model.width=128 --out runs/mine
    saccade train table --data table.csv --target price
    saccade train --resume runs/mine
    saccade train runs/mine --on new.tsv
    saccade train runs/table --on live.csv --online
    """
    from saccade.runs.run import resume as go_on
    from saccade.runs.run import train_recipe as begin

    changes = parse_overrides(set or []) | ({"data.target": target} if target else {})
    given = {"--data": data, "--model": model, "--resume": resume, "--init-from": init_from}
    if finetune_on is not None or online:
        from saccade.recipes.resolve import check_exclusive

        check_exclusive(finetune_on, online, given)
    if finetune_on is not None:
        trained = _on(what, finetune_on, out, changes, online, overwrite)
    elif resume is not None:
        trained = go_on(resume, _asked(what, data, model, changes), _options())
    elif what is None:
        raise ConfigError(
            "train needs a recipe, a .toml or a file of pairs; saccade list shows them."
        )
    else:
        from saccade.recipes.resolve import resolve_recipe

        found = resolve_recipe(what, data=data, model=model, changes=changes)
        options = _options()._replace(
            auto_model=found.auto_model, overwrite=overwrite, init_from=init_from
        )
        folder = out or Path("runs") / Path(what.split(",")[0]).name.split(".")[0]
        trained = begin(found.recipe, folder, options)
    _finish(trained, json)


def _on(
    what: str | None,
    finetune_on: str,
    out: Path | None,
    changes: dict[str, Any],
    online: bool,
    overwrite: bool,
) -> "TrainResult":
    if what is None:
        raise ConfigError("--on needs the run that goes on: saccade train RUN --on FILE.")
    from saccade.workflows.finetune import finetune

    options = _options()._replace(overwrite=overwrite)
    return finetune(Path(what), finetune_on, out, options, changes=changes, online=online)


def parse_overrides(assignments: list[str], flag: str = "--set") -> dict[str, Any]:
    """--set NAME=VALUE, many times, as a table."""
    changes = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise ConfigError(f"{flag} {assignment}: NAME=VALUE was wanted, e.g. model.width=128.")
        changes[name.strip()] = value.strip()
    return changes


def _asked(
    what: str | None, data: str | None, model: str | None, changes: dict[str, Any]
) -> dict[str, Any]:
    """What a call of resume asks to be so; it is refused if the run has it otherwise."""
    from saccade.recipes.resolve import resolve_recipe

    asked = dict(changes)
    if what is not None or data is not None:
        recipe = resolve_recipe(what or "translate", data=data, model=model, changes=changes).recipe
        named = ("synthetic", "path", "dataset")
        asked |= {f"data.{n}": getattr(recipe.data, n) for n in named if hasattr(recipe.data, n)}
    if model is not None:
        asked["model.name"] = model
    return asked


def _options() -> Any:
    from saccade.runs.run import TrainOptions

    console = stderr_console()

    def choices(made: list[Any]) -> None:
        if made:
            shown = make_table("setting", "value", "because")
            for choice in made:
                shown.add_row(choice.path, str(choice.value), choice.reason)
            console.print(shown, "")

    return TrainOptions(console=console, log=console.print, on_choices=choices)


def _finish(trained: "TrainResult", json: bool) -> None:
    run = trained.run
    where = shlex.quote(str(run.folder))
    if trained.stop_reason == "stop":
        raise KeyboardInterrupt(f"Stopped and saved. Go on with: saccade train --resume {where}")
    console = stderr_console()
    scores = run.evaluate()
    found, sentences = _moved(run)
    why = {
        "steps": "all steps are done",
        "minutes": "the minutes are over",
        "patience": "it has stopped getting better",
        "fitted": "the model has fitted itself",
    }
    online = getattr(run.recipe.train, "online", False)  # then nothing is held out
    console.print(f"\nTrained: {why[trained.stop_reason]}.{'' if online else ' On held-out data:'}")
    if json:
        print_json(
            {
                "run": str(run.folder),
                "stop_reason": trained.stop_reason,
                "parameters": run.parameters,
                "test": scores,
                **found,
            }
        )
        return
    if not online:
        console.print(scores_table(scores))
    for sentence in sentences:
        console.print(sentence, soft_wrap=True)
    example = run.task.example_input()
    console.print(f"\nThe run is in {where}. Next:")
    console.print(f"  saccade predict {where} {shlex.quote(example)}", soft_wrap=True)
    if run.task.attention_maps(example):
        console.print(
            f"  saccade look {where} {shlex.quote(example)} --save map.png", soft_wrap=True
        )


def _moved(run: "Run") -> tuple[dict[str, Any], list[str]]:
    """What going on has changed, if it did: for --json, and in words."""
    if "before" not in run.metadata:
        return {}, []
    from saccade.workflows.finetune import describe_transfer, transfer_reports

    found = transfer_reports(run)
    return {"transfer": [one._asdict() for one in found]}, describe_transfer(found)


def demo_command(
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/demo"),
    json: JsonOption = False,
) -> None:
    r"""Train a translator of dates in 46 languages, ask it, and see where it looks.

    \b
    saccade demo
    """
    from saccade.data.synthetic.dates import date_examples
    from saccade.recipes.translation import dates_recipe
    from saccade.runs.run import train_recipe as begin

    stderr_console().print("Learning to read dates in 46 languages (a minute or two) …\n")
    options = _options()._replace(overwrite=True, on_choices=lambda made: None)
    trained = begin(dates_recipe(), out, options)
    if trained.stop_reason == "stop":
        _finish(trained, json)
    run = trained.run
    scores = run.evaluate()
    examples = date_examples()
    answers = [answer.text for answer in run.predict([source for source, _ in examples])]
    if json:
        asked = [{"source": s, "text": a} for (s, _), a in zip(examples, answers, strict=True)]
        print_json({"run": str(out), "test": scores, "answers": asked})
        return
    count, share = scores["examples"], 100 * scores["exact"]
    print(f"\nExact on {count:,.0f} dates of days never seen in training: {share:.2f} %\n")
    for (source, wanted), answer in zip(examples, answers, strict=True):
        print(f"  {answer} {'✓' if answer == wanted else '✗'}  {source}")
    _show_why(run, examples[0][0])
    where = shlex.quote(str(out))
    print(f"\nPictures:  {out}/report/attention.png and {out}/report/curves.png")
    print(f'Try next:  saccade look {where} "5 de março de 2024" --save map.png')
    print("           saccade list")


def _show_why(run: "Run", source: str) -> None:
    seen = run.look(source)
    print(f"\nWhere it looks as it writes {seen.answer}:\n")
    print(seen.terminal(80, sys.stdout.isatty()))
    seen.save(run.folder / "report" / "attention.png")


def copy_command(
    recipe: Annotated[str, typer.Argument(help="A recipe's name; saccade list shows them.")],
    file: Annotated[Path, typer.Argument(help="The .toml file to write.")],
) -> None:
    r"""Write a recipe to a file that you can change and train.

    \b
    saccade copy dates mine.toml && saccade train mine.toml
    """
    from saccade.config import flatten, to_toml
    from saccade.io.atomic import write_atomically
    from saccade.recipes.resolve import RECIPES
    from saccade.registry import lookup

    function = lookup(RECIPES, recipe, "recipe")
    made = function()
    if file.exists():
        raise ConfigError(f"{file} is already there; choose another name.")
    if file.suffix != ".toml":
        raise ConfigError(f"{file} should end in .toml, so that train knows it for a recipe.")
    given, every = flatten(made, exclude_unset=True), flatten(made)
    lines = [
        f"# {recipe}: {function.__doc__ or ''}".rstrip(),
        "",
        to_toml(made, exclude_unset=True),
        "",
    ]
    lines += ["# Settings that are open, with the value they have if the data says nothing else:"]
    lines += [f"# {path} = {value}" for path, value in every.items() if path not in given]
    write_atomically(file, ("\n".join(lines) + "\n").encode())
    print(f"Written. Change it, then: saccade train {shlex.quote(str(file))}")
