"""Learned methods: their cards, their weights on disk, a gradient into them, and their training."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from methods import naive_learned as naive
from methods.naive_inside import naive_run
from search.random_batches import make_batches, zoo_model
from tiny import DEFAULT, FIRST_CLASS, IMAGE, LAYERS, build, inputs, picture, words
from vispco import Pruner, Schedule, cost
from vispco import models as zoo
from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout
from vispco.core.runs.checkpoint_file import load_checkpoint
from vispco.core.runs.run_record import RunFolderError
from vispco.data import dataset
from vispco.families import family_of
from vispco.scorers import SCORERS, Chain, ScoringContext
from vispco.scorers.learned import LearnedNetwork, LearnedScorer
from vispco.scorers.learned.network import SHIPPED
from vispco.search.gradient.training_loop import CHECKPOINT
from vispco.search.learned import ScorerSettings, ScorerTrainer, train_scorer
from vispco.search.objective import Objective

METHODS = [name for name in SCORERS if issubclass(SCORERS.get(name), LearnedScorer)]
TOLERANCE = 1e-4
FULL, BUDGET = Schedule.full(LAYERS), Schedule((1.0, 1.0, 0.5, 0.2))
SAMPLES = {
    "one picture": (words(2, 1), picture(4, 4), words(5, 2)),
    "two pictures": (words(2, 1), picture(4, 4), words(3, 2), picture(4, 4), words(4, 3)),
    "no text after the picture": (words(4, 4), picture(4, 4)),
    "one token": (words(4, 4), picture(1, 1), words(3, 2)),
}
SCHEDULES = {"full": FULL, "budget": BUDGET, "all pruned": Schedule((1.0, 1.0, 0.5, 0.0))}


def fresh(method, model, seed=0):
    """Random weights, large enough that thresholds differ from sample to sample."""
    torch.manual_seed(seed)
    scorer = SCORERS.get(method).fresh(model)
    for parameter in scorer.network.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    if method == "atp-llava":
        scorer.network.shift.fill_(-0.2)  # as a controller would leave it
    scorer.network.eval()
    return scorer


def three(family):
    samples = [DEFAULT, (words(1, 3), picture(2, 3), words(9, 4)), (words(3, 5), picture(3, 5), words(2, 6))]
    return inputs(family, samples)


def text_of(x):
    return x["attention_mask"].bool() & (x["input_ids"] != IMAGE)


@torch.no_grad()
def run(model, x, scorer, schedule):
    """(logits, token counts [B, L]) under a scorer."""
    pruner = Pruner(scorer, schedule)
    with pruner(model):
        return model(**x).logits, pruner.token_counts(model)


def naive_choice(method, network, positions, counts):
    if method == "dynamic-llava":
        return naive.dynamic_llava(network, counts)
    if method == "madtp":
        return naive.madtp(network, counts)
    return naive.atp_llava(network, {p: divmod(n % 16, 4) for n, p in enumerate(positions)}, counts)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("family", FIRST_CLASS)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_keeps_what_its_card_says(method, family, sample, schedule):
    x, model = inputs(family, [SAMPLES[sample]]), build(family)
    scorer = fresh(method, model)
    positions = (x["input_ids"][0] == IMAGE).nonzero()[:, 0].tolist()
    read = int(
        positions[-1] == x["input_ids"].shape[1] - 1
    )  # the last token of a prompt never leaves, and is not chosen
    counts = [max(count - read, 0) for count in schedule.counts([len(positions)])[0].tolist()]
    choice = naive_choice(method, scorer.network, positions, counts)
    first = scorer.earliest_layer
    asked = [len(positions)] * first + [-1] * (LAYERS - first)  # asked before every layer from its earliest on
    states, kept = naive_run(build(family, "eager"), x, asked, choice)
    model = build(family, "sdpa")
    pruner = Pruner(scorer, schedule, record=True)
    with torch.no_grad(), pruner(model):
        out = family_of(model).base(model)(**x).last_hidden_state[0]
        live = [
            [p for p, alive in zip(positions, mask[0].tolist(), strict=True) if alive]
            for mask in pruner.survivors(model)
        ]
        assert live == kept
        assert pruner.token_counts(model)[0].tolist() == [len(layer) for layer in kept]
    for position, state in states.items():
        torch.testing.assert_close(out[position], state, atol=TOLERANCE, rtol=0)
    assert len(kept[-1]) < len(positions) or (method == "dynamic-llava" and schedule is FULL) or len(positions) == 1


@pytest.mark.parametrize("method", METHODS)
def test_equal_tokens_go_to_the_earlier_one(method):
    """Equal states and equal attention: what is left to a budget of three is the first three that are alive."""
    model = build("llava")
    scorer = fresh(method, model)
    layer = 2 if method == "dynamic-llava" else scorer.network.config.options.get("layers", [2])[0]
    width, live = scorer.network.config.hidden, torch.tensor([[True, False, True, True, True, True]])
    context = ScoringContext(
        layer=layer,
        layout=TokenLayout.build(torch.tensor([[True] * 6 + [False]])),
        live=live,
        counts=torch.tensor([3]),
        embeddings=torch.ones(1, 7, width),
        merged_sizes=None,
        host_counts=(3,),
        hidden=torch.ones(1, 6, width),
        source=AllEqual(),
    )
    with torch.no_grad():
        kept = scorer.select(context).keep[0].tolist()
    if method == "atp-llava":  # its grid tells equal tokens apart: at most three, and none twice
        assert sum(kept) <= 3
        assert not kept[1]
    else:
        assert kept == [True, False, True, True, False, False]


class AllEqual:
    """Attention that prefers nobody."""

    def attention(self, *_, **__):
        return torch.full((1, 6), 0.1)


def test_a_deeper_drop_goes_by_the_rating_of_layer_2():
    model, x = build("llava"), inputs("llava", [DEFAULT])
    kept = []
    for schedule in (Schedule((1.0, 1.0, 0.5, 0.25)), Schedule((1.0, 1.0, 1.0, 0.25))):
        pruner = Pruner(fresh("dynamic-llava", model), schedule, record=True)
        with torch.no_grad(), pruner(model):
            model(**x)
            kept.append(pruner.survivors(model)[3])
    assert torch.equal(*kept)


@pytest.mark.parametrize("method", METHODS)
def test_generate_runs_and_goes_on_with_what_was_kept(method):
    model, x = build("qwen2_5_vl"), three("qwen2_5_vl")
    pruner = Pruner(fresh(method, model), BUDGET)
    with pruner(model):
        out = model.generate(**x, max_new_tokens=3, do_sample=False, return_dict_in_generate=True)
        counts = pruner.token_counts(model)
    text = text_of(x).sum(-1)
    for layer in range(2, LAYERS):
        assert out.past_key_values.layers[layer].keys.shape[-2] == int((text + counts[:, layer]).max()) + 2


@pytest.mark.parametrize("method", METHODS)
class TestWeights:
    def test_they_are_saved_as_safetensors_and_come_back(self, method, tmp_path):
        model, x = build("llava"), three("llava")
        scorer = fresh(method, model)
        scorer.network.save_pretrained(tmp_path / "weights")
        assert sorted(p.name for p in (tmp_path / "weights").iterdir()) == ["config.json", "model.safetensors"]
        again = Chain.of(f"{method}(weights={tmp_path / 'weights'})")
        assert Chain.of(str(again)) == Chain.of(json.loads(json.dumps(again.to_dict()))) == again
        before, after = run(model, x, scorer, BUDGET), run(model, x, again, BUDGET)
        assert torch.equal(before[0], after[0])
        assert torch.equal(before[1], after[1])

    def test_what_is_missing_is_never_made_up(self, method, tmp_path):
        scorer = fresh(method, build("llava"))
        scorer.network.save_pretrained(tmp_path)
        whole = load_file(tmp_path / "model.safetensors")
        cut = dict(list(whole.items())[1:])
        save_file(cut, tmp_path / "model.safetensors", {"format": "pt"})
        with pytest.raises(InvalidInputError, match=f"not complete: {next(iter(whole))}"):
            scorer.network_class.from_pretrained(tmp_path)

    def test_a_pickle_is_not_read(self, method, tmp_path):
        model = build("llava")
        scorer = fresh(method, model)
        scorer.network.save_pretrained(tmp_path)
        (tmp_path / "model.safetensors").unlink()
        torch.save(scorer.network.state_dict(), tmp_path / "pytorch_model.bin")
        with pytest.raises(InvalidInputError, match=r"cannot be read.*model\.safetensors"):
            Pruner(f"{method}(weights={tmp_path})", FULL).apply(model)

    def test_those_of_another_model_or_method_are_refused(self, method, tmp_path):
        model = build("llava")
        network = fresh(method, model).network
        network.save_pretrained(tmp_path)
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps({**config, "method": "other"}))
        with pytest.raises(InvalidInputError, match="those of 'other'"):
            Pruner(f"{method}(weights={tmp_path})", FULL).apply(model)
        (tmp_path / "config.json").write_text(json.dumps({**config, "num_layers": 12}))
        with pytest.raises(InvalidInputError, match=r"12 layers.*vispco train"):
            Pruner(f"{method}(weights={tmp_path})", FULL).apply(model)

    def test_without_any_it_is_said_how_to_make_them(self, method):
        with pytest.raises(InvalidInputError, match=rf"no weights for the model.*vispco train {method}"):
            Pruner(method, FULL).apply(build("llava"))
        with pytest.raises(InvalidInputError, match="There are no weights"):
            Pruner(f"{method}(weights=./nowhere)", FULL).apply(build("llava"))


def trainer(method, folder=None, **plan):
    model = build("qwen2_5_vl")
    torch.manual_seed(0)
    scorer = SCORERS.get(method).fresh(model, target=plan.pop("target", None))
    settings = ScorerSettings(**{"steps": 12, "rate": 1e-2, "batches": 2, "save_every": 2, **plan})
    return ScorerTrainer(Objective(model, scorer), scorer, make_batches(count=2), settings, directory=folder)


@pytest.mark.parametrize("method", METHODS)
def test_a_gradient_reaches_every_weight_and_the_model_has_none(method):
    training = trainer(method, steps=1)
    training.run()
    for name, parameter in training.module.named_parameters():
        assert parameter.grad is not None, name
    moved = [n for n, p in training.module.named_parameters() if bool((p.grad != 0).any())]
    assert len(moved) >= 0.8 * len(list(training.module.parameters()))
    assert all(parameter.grad is None for parameter in training.objective.model.parameters())
    assert training.objective.spent.backward == 2 * training.objective.spent.forward > 0


PLANS = {
    "atp-llava": {"target": 0.4, "weight": 10.0, "rate": 3e-2},  # where samples and depths can trade tokens
    "dynamic-llava": {"target": 0.4},
    "madtp": {"target": 0.5, "rate": 3e-2},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_few_steps_lower_the_loss(method):
    training, losses = trainer(method, steps=24, **PLANS[method]), []
    training.settle()  # a controller that is far off would change the loss by itself
    own = training.loss

    def noted(batch, place):
        kl, penalty = own(batch, place)
        losses.append(float((kl + penalty).detach()))
        return kl, penalty

    training.loss = noted
    training.run()
    part = len(losses) // 3
    assert sum(losses[-part:]) < 0.95 * sum(losses[:part])


@pytest.mark.parametrize("target", [0.6, 0.8])
def test_the_controller_brings_the_mean_share_of_flops_to_its_target(target):
    training = trainer("madtp", steps=10, target=target, settle=60, tolerance=0.01)
    training.run()
    share = training.settle()
    assert share == pytest.approx(target, abs=0.03)
    model, batches, exact = training.objective.model, training.batches, training.objective.cost
    found = []
    for batch in batches:  # and dropping takes as much
        x = {k: v for k, v in batch.encoded.inputs.items() if k != "labels"}
        pruner = Pruner(training.scorer, FULL)
        with torch.no_grad(), pruner(model):
            model(**x, labels=batch.encoded.labels)
            counts = pruner.token_counts(model)
        workload = cost.Workload(batch.num_text, batch.num_visual)
        found.append(exact.price(counts, workload) / exact.full(workload))
    assert float(torch.cat(found).mean()) == pytest.approx(share, abs=1e-3)


def test_a_killed_training_goes_on_to_the_same_numbers(tmp_path):
    trainer("madtp", tmp_path / "whole", steps=6).run()
    trainer("madtp", tmp_path / "cut", steps=4).run()
    again = trainer("madtp", tmp_path / "cut", steps=6)
    assert again.step == 4
    again.run()
    expected, found = (load_checkpoint(tmp_path / name / CHECKPOINT)[0] for name in ("whole", "cut"))
    assert all(torch.allclose(expected[n].float(), found[n].float(), rtol=1e-5, atol=1e-7) for n in expected)


def test_training_fills_a_run_folder_that_names_a_scorer_and_refuses_others(tmp_path):
    model, processor = zoo_model()
    samples, told = list(dataset("calibration", limit=1))[:4], []
    settings = ScorerSettings(steps=2, batch_size=2, target=0.3)
    options = {"options": {"width": 16}, "say": told.append}
    scorer = train_scorer(model, processor, samples, "dynamic-llava", settings, directory=tmp_path / "run", **options)
    assert (tmp_path / "run/scorer/model.safetensors").is_file()
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert (config["settings"]["target"], config["network"]["width"]) == (0.3, 16)
    layers = len(family_of(model).layers(model))
    loaded = Chain.of(f"dynamic-llava(weights={tmp_path / 'run'})").for_model(model).scorers[0]
    assert all(torch.equal(t, scorer.network.state_dict()[n]) for n, t in loaded.network.state_dict().items())
    assert layers == loaded.network.config.num_layers
    with pytest.raises(RunFolderError, match="other settings"):
        train_scorer(model, processor, samples, "dynamic-llava", directory=tmp_path / "run", **options)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("mine")
    with pytest.raises(RunFolderError, match=r"thesis\.txt"):
        train_scorer(model, processor, samples, "dynamic-llava", settings, directory=tmp_path / "mine", **options)
    with pytest.raises(InvalidInputError, match="nothing to train"):
        train_scorer(model, processor, samples, "fastv")
    with pytest.raises(InvalidInputError, match="does not take depth"):
        train_scorer(model, processor, samples, "madtp", options={"depth": 3})


@pytest.mark.parametrize("method", METHODS)
def test_shipped_models_need_no_folder_of_weights(method):
    shipped = sorted(path.parent for path in SHIPPED.glob(f"*/{method}/config.json"))
    assert [path.parent.name for path in shipped] == ["tiny-gemma", "tiny-llava", "tiny-qwen"]
    for folder in shipped:
        assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
        assert (folder / "model.safetensors").stat().st_size < 300_000
        text = AutoConfig.from_pretrained(zoo.path(folder.parent.name)).get_text_config()
        config = SCORERS.get(method).network_class.from_pretrained(folder).config
        assert (config.hidden, config.num_layers) == (text.hidden_size, text.num_hidden_layers)
        assert (config.method, config.model) == (method, folder.parent.name)
    model, _ = zoo.load("tiny-llava")
    assert isinstance(Chain.of(method).for_model(model).scorers[0].network, LearnedNetwork)
