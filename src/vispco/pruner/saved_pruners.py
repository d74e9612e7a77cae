"""Saved pruners, folders of searches, saved predictors and repositories on the hub, read as a `PrunerSpec`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from vispco.core.errors import InvalidInputError, VispcoError
from vispco.core.runs import files
from vispco.core.runs.run_record import RunFolderError, check_complete, check_output, check_recorded
from vispco.pruner import search_files as disk
from vispco.pruner.joint_predictor import JointPredictorConfig
from vispco.pruner.predictor import PredictorConfig
from vispco.pruner.pruner_spec import FORMAT, NAME, REMEDY, PrunerSpec, is_pruner
from vispco.scorers import Chain

_WHAT = (
    "Give a saved pruner (`vispco export`, Pruner.save_pretrained), the directory of a search (`vispco search MODEL --out "
    "DIR`), or a saved predictor: a folder, or hub:owner/name on the hub."
)
HUB = "hub:"  # a path that is not there is never looked for on the network
FILES = [NAME, disk.CONFIG, disk.SHAPES, "*.safetensors", f"{disk.PREDICTOR}/*"]  # of a repository on the hub


def read_source(source: str | Path) -> PrunerSpec:
    """Read what a user names: a JSON file, a folder, or a hub id. An error says what is there instead, and what to give."""
    try:
        place = Path(source).expanduser()
    except RuntimeError as error:  # ~nobody
        raise InvalidInputError(f"{source} does not exist: {error} {_WHAT}") from error
    if files.is_file(place):
        check_recorded(place)
        path, data = place, files.read_json_object(place, what="pruner", remedy=_WHAT)
        if not is_pruner(data) and "retention" in data:
            raise InvalidInputError(
                f"{place} is a schedule without a scorer. Give it as --schedule with --scorer, or in Python: "
                "Pruner(scorer, Schedule.load(path))."
            )
    else:
        place = place if files.is_folder(place) else _download(str(source))
        path = place / NAME
        if not files.is_file(path):
            return replace(_read_folder(place, str(source)), source=str(source), folder=place)
        data = files.read_json_object(path, what="pruner", remedy=REMEDY)
    try:
        return replace(PrunerSpec.from_dict(data), source=str(source), folder=path.parent)
    except VispcoError as error:
        raise InvalidInputError(f"{path}: {error}") from error


def _read_folder(folder: Path, given: str) -> PrunerSpec:
    if not any((folder / name).exists() for name in (disk.CONFIG, disk.SHAPES)):
        raise InvalidInputError(
            f"{given} holds no {disk.CONFIG}, so it is neither the directory of a search nor a saved predictor. "
            f"Run `vispco search MODEL --out {given}` first, or give another folder."
        )
    kind = _model_type(folder / disk.CONFIG)
    if kind == JointPredictorConfig.model_type:
        joint = JointPredictorConfig.from_pretrained(folder)
        return PrunerSpec(Chain.of(joint.chains[0]), {"kind": "joint", "folder": "."}, cost=joint.cost)
    if kind == PredictorConfig.model_type:
        single = PredictorConfig.from_pretrained(folder)
        alone = {"kind": "predictor", "folder": "."}
        return PrunerSpec(Chain.of(single.scorer), alone, cost=single.make_cost().to_dict())
    if kind is not None:
        raise InvalidInputError(f"{given} is a model ({kind}), not what a search found. {_WHAT}")
    # The spec of a search's result, from the files of its folder.
    if not ((folder.parent.parent / "blobs").is_dir() and folder.parent.name == "snapshots"):
        check_complete(folder)
    config = disk.read_config(folder)
    try:
        cost, scorer, kernel = config["cost"], config["scorer"], config["kernel"]
    except KeyError as error:
        raise InvalidInputError(
            f"{folder / disk.CONFIG} has no {error}, so what the search found cannot be used. Run the search again."
        ) from error
    shapes = [each.to_dict() for each in disk.read_shapes(folder)]
    found: dict[str, Any] = {"kind": "shapes"}
    if config.get("parts") is not None:
        found = {"kind": "parts", "parts": config["parts"]}
    elif (folder / disk.PREDICTOR).is_dir():
        inside = _model_type(folder / disk.PREDICTOR / disk.CONFIG)
        found = {
            "kind": "joint" if inside == JointPredictorConfig.model_type else "predictor",
            "folder": disk.PREDICTOR,
        }
    planner = {
        **found,
        "kernel": kernel,
        "shapes": [{key: value for key, value in each.items() if key != "history"} for each in shapes],
        "typical": config.get("typical"),
    }
    return PrunerSpec(
        Chain.of(scorer),
        planner,
        cost=cost,
        model=str(config.get("model") or ""),
        fingerprint=config.get("fingerprint"),
        versions=dict(config.get("versions") or {}),
    )


def _model_type(config: Path) -> str | None:
    """The `model_type` of a config.json; None where it is not one of a model."""
    try:
        kind = files.read_json_object(config).get("model_type")
    except InvalidInputError:
        return None  # reported by who reads it
    return None if kind is None else str(kind)


def _download(name: str) -> Path:
    """The folder of a repository on the hub, or of its copy in the cache."""
    if not name.startswith(HUB):
        raise InvalidInputError(f"{name} does not exist. {_WHAT}")
    name = name.removeprefix(HUB)
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - half a second of import, for hub ids only

    try:
        return Path(snapshot_download(name, allow_patterns=FILES))
    except (OSError, ValueError) as error:  # also what huggingface_hub raises
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InvalidInputError(
            f"{name} is not a folder here and could not be fetched from the hub: {first.strip()} {_WHAT}"
        ) from error


def check_export(folder: Path) -> None:
    """Refuse a folder for a pruner that holds anything but an earlier one."""
    files.check_writable(folder / NAME)
    found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    others = [name for name in found if name not in (NAME, disk.PREDICTOR)]
    if others or (found and NAME not in found):
        raise RunFolderError(
            f"{folder} holds {', '.join((others or found)[:3])}, which no export wrote. Give the name of a new folder."
        )
    if found:
        check_output(folder / NAME, FORMAT)
