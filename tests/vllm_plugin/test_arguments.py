"""What vLLM is told, and what is refused: without vLLM."""

import json
import shlex

import pytest
import torch
from transformers import AutoConfig
from typer.testing import CliRunner

import vispco
from vispco import Pruner, PrunerSpec, Schedule
from vispco import cost as costs
from vispco import models as zoo
from vispco.cli.main import app
from vispco.core.errors import InvalidInputError, MissingExtraError, UnsupportedModelError
from vispco.core.registry import preserved
from vispco.scorers import SCORERS, Chain, Scorer, register
from vispco.scorers.cost import workload_under
from vispco.search.initial_shapes import initial_shapes
from vispco.search.joint.space import joint_kernel
from vispco.vllm import ServingSettings, arguments, engine_arguments
from vispco.vllm.settings import _check_servable, _share_before_layers, kept_tokens


def test_arguments_name_the_pruned_class_and_the_settings():
    words = arguments("tiny-qwen3", "divprune", keep=0.25, max_keep=0.5)
    assert words[0] == "--hf-overrides"
    assert "--enforce-eager" in words
    assert json.loads(words[1]) == {
        "architectures": ["VispcoQwen3VLForConditionalGeneration"],
        "vispco": {"scorer": "divprune", "keep": 0.25, "max_keep": 0.5},
    }
    assert not any("trust" in word for word in words), "the operator says that"


def test_the_command_prints_them_for_a_shell():
    plain = CliRunner().invoke(app, ["vllm-args", "tiny-qwen", "--method", "uniform", "--keep", "0.5"])
    quoted = CliRunner().invoke(app, ["vllm-args", "tiny-qwen", "--method", "uniform", "--keep", "0.5", "--quoted"])
    assert plain.stdout.split() == shlex.split(quoted.stdout) == arguments("tiny-qwen", "uniform", keep=0.5)


def test_a_refusal_is_an_argument_that_stops_vllm():
    """`$(vispco vllm-args ...)` must not start a server without pruning."""
    found = CliRunner().invoke(app, ["vllm-args", "tiny-qwen", "--method", "uniform", "--keep", "1.5"])
    assert found.exit_code != 0
    assert found.stdout.split() == ["--refused-by-vispco"]


def test_a_saved_pruner_gives_its_share(tmp_path):
    Pruner("divprune", Schedule((0.375,) * 12)).save_pretrained(tmp_path / "one")
    assert ServingSettings.of_pruner(tmp_path / "one") == ServingSettings("divprune", 0.375)
    assert '"keep":0.375' in arguments("tiny-qwen3", pruner=tmp_path / "one")[1]


def test_a_servable_search_gives_its_share_at_a_budget(tmp_path):
    """As many tokens as the budget pays for, at the size that the search calls typical."""
    cost = costs.get("exact", AutoConfig.from_pretrained(zoo.path("tiny-qwen3")))
    kernel = joint_kernel(servable=True)
    shape = {"budget": 0.5, "params": initial_shapes(kernel, cost.num_layers)[0].tolist(), "kl": 0.1}
    planner = {"kind": "shapes", "kernel": kernel.config(), "shapes": [shape], "typical": [20, 100]}
    PrunerSpec(Chain.of("divprune"), planner, cost=cost.to_dict()).save(tmp_path / "pruner.json")
    found = ServingSettings.of_pruner(tmp_path, 0.5)
    load = workload_under(Chain.of("divprune"), cost.dimensions, 20, 100)
    counts = torch.arange(101)[:, None].expand(-1, cost.num_layers)
    affordable = (cost.fraction_of_counts(counts, load) <= 0.5).nonzero()[-1].item()
    assert found.scorer == "divprune"
    assert round(100 * found.keep) == affordable
    with pytest.raises(InvalidInputError, match="none was given"):
        ServingSettings.of_pruner(tmp_path)


@pytest.mark.parametrize("schedule", [Schedule.single(2, 0.5, 12), Schedule(((0.5,) * 12, (0.25,) * 12))])
def test_drops_inside_the_language_model_are_refused(schedule):
    with pytest.raises(InvalidInputError, match="before layer 0 only"):
        _share_before_layers(schedule)


def test_scorers_are_judged_by_what_they_declare():
    """Of the registered ones, those that need no more than embeddings and places are served."""
    served = set()
    for name in SCORERS.names():
        try:
            _check_servable(Chain.of(name))
            served.add(name)
        except InvalidInputError:
            continue
    assert {"divprune", "uniform", "random"} <= served
    for name in served:
        scorer = Chain.of(name).scorers[0]
        assert not any((scorer.needs_attention, scorer.reads_question, scorer.merges, scorer.decides_count))
    with preserved():

        @register
        class Own(Scorer):
            name = "own-for-vllm"
            needs_attention = False

        _check_servable(Chain.of("own-for-vllm"))
        Own.decides_count = True
        with pytest.raises(InvalidInputError, match="how many tokens stay"):
            _check_servable(Chain.of("own-for-vllm"))


@pytest.mark.parametrize(
    ("scorer", "reason"),
    [
        ("fastv", "inside the language model"),
        ("divprune+fastv", "inside the language model"),
        ("divprune@3", "inside the language model"),
        ("pyramiddrop", "reads attention"),
        ("cdpruner", "reads the question"),
        ("visionzip", "merges|vision tower"),
        ("equal:divprune", "every picture by its own size"),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_sentence(scorer, reason):
    with pytest.raises(InvalidInputError, match=reason):
        ServingSettings.choose(scorer, keep=0.5)


@pytest.mark.parametrize("share", [0, -0.1, 1.5, "x", None, True, float("nan"), [0.5]])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(InvalidInputError, match="above 0, at most 1"):
        ServingSettings("divprune", share)
    with pytest.raises(InvalidInputError, match="vispco_keep="):
        ServingSettings("divprune", 0.5).share({"vispco_keep": share})


def test_a_request_may_ask_for_less_and_for_more_up_to_the_bound():
    settings = ServingSettings("divprune", 0.25, 0.5)
    assert settings.share({}) == 0.25
    assert settings.share({"vispco_keep": 0.5}) == settings.share({"image_pruning_rate": 0.5}) == 0.5
    assert settings.share({"vispco_keep": 0.1}) == 0.1
    for asked in ({"vispco_keep": 0.51}, {"image_pruning_rate": 0.4}):
        with pytest.raises(InvalidInputError, match="max_keep"):
            settings.share(asked)
    with pytest.raises(InvalidInputError, match="Both"):
        settings.share({"vispco_keep": 0.5, "image_pruning_rate": 0.5})
    for rate in (1, -0.5, "x", None):
        with pytest.raises(InvalidInputError, match="below 1"):
            settings.share({"image_pruning_rate": rate})


def test_counts_are_those_of_a_schedule_and_never_none():
    assert [kept_tokens(number, 0.25) for number in (1, 9, 10, 100)] == [1, 2, 3, 25]
    assert kept_tokens(64, 1.0) == 64


def test_other_classes_are_refused():
    with pytest.raises(
        UnsupportedModelError, match=r"Gemma3ForConditionalGeneration, whose .* both directions.*vispco serve"
    ):
        arguments("tiny-gemma", "divprune", keep=0.5)
    with pytest.raises(UnsupportedModelError, match=r"InternVLChatModel, the original format.*vispco serve"):
        engine_arguments._pruned_architecture({"architectures": ["InternVLChatModel"]})
    pixtral = {"architectures": ["LlavaForConditionalGeneration"], "vision_config": {"model_type": "pixtral"}}
    with pytest.raises(UnsupportedModelError, match=r"Pixtral tower, whose pictures are several runs.*vispco serve"):
        engine_arguments._pruned_architecture(pixtral)


@pytest.mark.parametrize(
    "given",
    [{}, {"scorer": "divprune"}, {"scorer": "divprune", "keep": 0.5, "pruner": "runs/x"}, {"pruner": "x", "keep": 0.5}],
)
def test_one_way_to_say_it_is_asked_for(given):
    with pytest.raises(InvalidInputError):
        arguments("tiny-qwen3", given.pop("scorer", None), **given)


def test_a_missing_or_unlisted_vllm_is_told(monkeypatch):
    def missing(name):
        raise engine_arguments.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(engine_arguments.metadata, "version", missing)
    with pytest.raises(MissingExtraError, match="vLLM is not installed"):
        vispco.vllm.options("divprune", keep=0.25)
    monkeypatch.setattr(engine_arguments.metadata, "version", lambda name: "0.31.9")
    with pytest.raises(InvalidInputError, match=r"vllm 0\.31\.9 is installed"):
        vispco.vllm.options("divprune", keep=0.25)
    monkeypatch.setattr(engine_arguments.metadata, "version", lambda name: "0.32.0+cpu")
    assert vispco.vllm.options("divprune", keep=0.25)["enforce_eager"]


def test_the_override_changes_a_config_and_leaves_the_trial_of_vllm_alone():
    from transformers import AutoConfig, PreTrainedConfig

    from vispco import models as zoo

    override = engine_arguments._ConfigOverride(ServingSettings("divprune", 0.25))
    trial = PreTrainedConfig(architectures=[""], model_type="dummy_qwen3_vl")
    assert override(trial).architectures == [""]
    config = override(AutoConfig.from_pretrained(zoo.path("tiny-qwen3")))
    assert config.architectures == ["VispcoQwen3VLForConditionalGeneration"]
    assert ServingSettings.of_config(config) == override.settings
