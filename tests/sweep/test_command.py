"""`vispco sweep` as a person gives it: budgets, names, and a sweep that is already there."""

import pytest

from cli.invoking import Invoke
from vispco.core.errors import InvalidInputError
from vispco.cost import Dimensions, TimeProfile
from vispco.evaluation.frontier import Frontier
from vispco.evaluation.spec import EvaluatorSpec
from vispco.pruner.measured_planner import device_name
from vispco.pruner.pruning_options import window_of

SMALL = ("--tasks", "existence", "--limit", "1", "--workers", "0")


@pytest.fixture(scope="module")
def loaded():
    return EvaluatorSpec(model="tiny-llava", tasks=("existence",), limit=1).build()


@pytest.fixture
def command(monkeypatch, capsys, loaded, tmp_path):
    """The command, with a model that is loaded once."""
    monkeypatch.setattr(EvaluatorSpec, "build", lambda _: loaded)
    invoke = Invoke(monkeypatch, capsys)
    return lambda *given: invoke("sweep", "tiny-llava", *SMALL, "--out", tmp_path / "out", *given)


@pytest.mark.parametrize(("text", "window"), [(None, None), ("0.5", (0.0, 0.5)), ("0.3, 0.5", (0.3, 0.5))])
def test_a_budget_is_a_ceiling_or_a_range(text, window):
    assert window_of(text) == window


@pytest.mark.parametrize("text", ["0.1,0.2,0.3", "", "half"])
def test_a_budget_that_cannot_be_read_is_refused(text):
    with pytest.raises(InvalidInputError, match=r"was given|cannot be read"):
        window_of(text)


def test_a_budget_of_time_is_a_share_of_the_flops(command, loaded, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = ("--budget", "0.7t", "--strategy", "random", "--trials", "2")
    done = command(*asked)
    assert done.code == 1
    assert "vispco profile" in done.err
    TimeProfile(
        dimensions=Dimensions.from_config(loaded.model.config), device=device_name(loaded.model.device), dtype="float32",
        batches=(1,), tokens=(1, 1000), layer_ms=((0.001, 1.0),), fixed_ms=(0.1,), drop_ms=(1e-6,),
    ).save()  # fmt: skip
    done = command(*asked)
    assert done.code == 0, done.err
    assert "of the FLOPs, for a prompt of" in done.err


def test_every_configuration_lies_within_the_budget_and_says_so_in_its_name(command, tmp_path):
    done = command("--budget", "0.5,0.7", "--strategy", "random", "--trials", "3")
    assert done.code == 0, done.err
    assert "3/3 configurations" in done.err
    found = Frontier.load(tmp_path / "out" / "tiny-llava-fastv-single-random-0.5-0.7.frontier.json")
    assert len(found) == 3
    assert all(0.5 <= found.cost(point) <= 0.7 for point in found)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (("--budget", "0.01"), "is below the floor"),
        (("--budget", "0.7,0.5"), "Give two fractions"),
        (("--budget", "1.5"), "It must be above 0, up to 1"),
        (("--trials", "0"), "A sweep needs at least one"),
        (("--storage", "postgresql://nobody@127.0.0.1:1/x"), "cannot be reached: Connection refused"),
    ],
)
def test_what_cannot_be_swept_is_refused_in_a_sentence(command, given, sentence):
    done = command(*given)
    assert done.code == 1
    assert sentence in done.err
    assert "Traceback" not in done.err


def test_a_study_of_another_space_is_refused_and_both_are_named(command):
    given = ("--name", "mine", "--strategy", "random", "--trials", "1")
    assert command(*given).code == 0
    done = command(*given, "--space", "free")
    assert done.code == 1
    assert "it has space='single'" in done.err
    assert "this one has space='free'" in done.err
