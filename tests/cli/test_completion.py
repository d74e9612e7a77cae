"""After TAB: models, scorers and tasks."""

import pytest

from vispco.cli.names import complete_scorers, complete_tasks
from vispco.data import TASKS
from vispco.models import names
from vispco.models.model_spec import model_names
from vispco.scorers import SCORERS


def test_models_are_the_shipped_ones_and_folders_of_models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny-mine").mkdir()
    (tmp_path / "tiny-mine" / "config.json").write_text("{}")
    (tmp_path / "tiny-other").mkdir()
    assert set(model_names("")) >= {*names(), "tiny-mine"}
    assert model_names("tiny-m") == ["tiny-mine"]
    assert model_names("tiny-q") == ["tiny-qwen", "tiny-qwen3"]


@pytest.mark.parametrize("before", ["", "divprune+"])
def test_scorers_alone_and_in_a_chain(before):
    assert complete_scorers(f"{before}fast") == [f"{before}fastv"]
    assert complete_scorers(before) == [f"{before}{name}" for name in SCORERS]


def test_tasks_alone_and_in_a_list():
    assert set(TASKS) | {"all", "mme="} <= set(complete_tasks(""))
    assert complete_tasks("word,count") == ["word,counting"]


def test_commands_offer_them():
    import typer

    from vispco.cli.main import app

    command = typer.main.get_command(app).commands["search"]
    known = {parameter.name: parameter for parameter in command.params}
    for name in ("model", "scorer", "tasks"):
        assert known[name]._custom_shell_complete is not None, name
