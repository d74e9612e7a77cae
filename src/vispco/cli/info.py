"""`vispco info`: layers, tokens, FLOPs and memory of a model, and the cost of pruning it, from its config alone."""

from typing import Annotated, Any

import typer

from vispco.cli.console import fitted_table, show
from vispco.cli.options import AsJson
from vispco.core.errors import InvalidInputError
from vispco.models.model_spec import read_config, read_preprocessor
from vispco.timing.describe_settings import DescribeSettings


def info(
    model: Annotated[
        str | None, typer.Argument(help="A shipped model, a folder, a hub id, or a config.json alone.")
    ] = None,
    *,
    methods: Annotated[
        bool, typer.Option("--methods", help="What published settings mean in tokens and FLOPs; no model is needed.")
    ] = False,
    settings: DescribeSettings,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that comes with the config.")] = False,
    json: AsJson = False,
) -> None:
    """Layers, tokens, FLOPs and memory of a model; reads no weights.

    FLOPs by both formulas, and what an evaluation, a search and the grid would take.

    Examples:

        vispco info tiny-qwen --image-size 168x168

        vispco info Qwen2.5-VL-3B-config.json --image-size 1024x768 --tflops 312 --bandwidth 2 --gpus 8

        vispco info --methods
    """
    if methods:
        from vispco.pruner.presets import account, account_table  # noqa: PLC0415

        rows = account(settings.text)
        columns, cells, title, caption = account_table(rows, settings.text)
        shown = None if json else [fitted_table(columns, cells, title, left=("setting", "label")), caption]
        show({"model": "LLaVA-1.5-7B", "methods": rows}, as_json=json, table=shown)
        return
    if model is None:
        raise InvalidInputError(
            "No model was given. Give one (`vispco info tiny-qwen`), or --methods, which needs none."
        )
    config = read_config(model, revision=revision, trust_remote_code=trust_remote_code)
    from vispco.timing.estimates import describe  # noqa: PLC0415
    from vispco.timing.tables import model_rows  # noqa: PLC0415

    data = describe(config, model, settings, read_preprocessor(model))
    show(data, as_json=json, table=None if json else _table(data["model"], model_rows(data)))


def _table(title: str, sections: list[list[tuple[str, str]]]) -> Any:
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, show_header=False)
    for rows in sections:
        table.add_section()
        for row in rows:
            table.add_row(*row)
    return table
