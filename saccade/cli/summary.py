"""`saccade summary`: the layers of an image network, their sizes and their cost."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.console import load_torch, make_table, print_json, stdout_console
from saccade.cli.options import JsonOption, parse_overrides
from saccade.errors import ConfigError
from saccade.types.limits import MAX_VOCABULARY

if TYPE_CHECKING:
    from saccade.inspection.model_summary import LayerSummary, ModelSummary


def complete_networks(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """Complete the name of an image network."""
    from saccade.models.registry import IMAGE_MODELS

    for name in sorted(IMAGE_MODELS):
        if name.startswith(incomplete):
            yield name, "image network"


def summary_command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="An image network, such as resnet18.",
            autocompletion=complete_networks,
        ),
    ],
    input: Annotated[
        str, typer.Option(metavar="C,Y,X", help="Channels, height and width of an image.")
    ] = "3,224,224",
    classes: Annotated[
        int, typer.Option(help="Number of classes.", min=1, max=MAX_VOCABULARY)
    ] = 1000,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of it, e.g. model.width=32."),
    ] = None,
    json: JsonOption = False,
) -> None:
    r"""List the layers of an image network, with their sizes and cost.

    \b
    output           channels, height and width
    multiply-adds    of convolutions, dense layers and attention, for one image
    field            receptive field: side in pixels of what a value depends on

    \b
    saccade summary resnet18 --input 3,224,224
    saccade summary lenet --input 1,28,28 --classes 10
    saccade summary resnet18 --input 3,32,32 --set model.width=16
    """
    channels, size = parse_image_shape(input)
    overrides = {
        name.removeprefix("model."): value for name, value in parse_overrides(set_).items()
    }
    load_torch()
    summary = summarise_network(
        model, {**overrides, "classes": classes, "channels": channels, "image_size": size}
    )
    if json:
        print_json({**summary._asdict(), "layers": [layer._asdict() for layer in summary.layers]})
        return
    print_summary(summary)


def parse_image_shape(text: str) -> tuple[int, int]:
    """Return channels and side of C,Y,X, where Y and X are the same."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) <= 9 for part in parts):
        parts = []
    channels, height, width = map(int, parts) if len(parts) == 3 else (0, 0, 0)
    if not channels or not height or height != width:
        raise ConfigError(
            f"got --input {text}; expected channels, height and width of a square image; try "
            "--input 3,224,224."
        )
    return channels, height


def summarise_network(model: str, values: dict[str, Any]) -> "ModelSummary":
    """Return the layers of a network, which is built without memory for its weights."""
    import torch

    from saccade.config import override_settings
    from saccade.inspection.model_summary import summarise_model
    from saccade.models.registry import IMAGE_MODELS
    from saccade.registry import lookup

    entry = lookup(IMAGE_MODELS, model, "image network")
    config = override_settings(entry.config_class(name=model), values)  # type: ignore[call-arg]
    with torch.device("meta"):
        network = entry.model_class(config)
        return summarise_model(network, torch.empty(1, *network.image_shape))


def print_summary(summary: "ModelSummary") -> None:
    """Print a row for each layer, and the totals."""
    table = make_table("layer", "kind", "output", "parameters", "multiply-adds", "field")
    for column in table.columns[1:]:
        column.no_wrap = True
    for column in table.columns[3:]:
        column.justify = "right"
    for layer in summary.layers:
        table.add_row(*_cells(layer))
    console = stdout_console()
    console.print(table, "")
    megabytes = 4 * summary.parameters / 1e6
    console.print(
        f"{summary.parameters:,} parameters ({megabytes:,.1f} MB)\n"
        f"{summary.multiply_adds:,} multiply-adds for one image"
    )


def _cells(layer: "LayerSummary") -> tuple[str, ...]:
    field = layer.receptive_field
    return (
        layer.name,
        layer.kind,
        ",".join(map(str, layer.output_shape)),
        f"{layer.parameters:,}" if layer.parameters else "",
        f"{layer.multiply_adds:,}" if layer.multiply_adds else "",
        "all" if field is None else str(field),
    )
