import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from vispco.core.errors import UnknownNameError, VispcoError
from vispco.core.runs.checkpoint_file import load_checkpoint, save_checkpoint
from vispco.data.dataset import SPLITS, TASKS, random_for
from vispco.models.shipped import ONE_OF_EACH_CLASS
from vispco_zoo.definitions import build_image_processor, build_model
from vispco_zoo.initialization import shift, sincos_2d
from vispco_zoo.model_trainer import ModelTrainer
from vispco_zoo.muon import orthogonalize
from vispco_zoo.packed_batch import ATTENTION, Packer, answer_loss, answers, encode, visual_tokens
from vispco_zoo.recipe import Recipe, Round, recipe
from vispco_zoo.token_labels import CLASSES, TokenLabelHeads, token_labels
from vispco_zoo.tokenizer import markup, token_ids
from vispco_zoo.training_scenes import examples, resample

SHORT = Recipe(steps=12, warmup=4, warmup_pictures=2, pictures=2, questions=3)


@pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
def test_a_packed_row_equals_its_questions_asked_alone(name):
    model = build_model(name).eval()
    images = build_image_processor(name)
    pack = Packer(model, images)
    marks = markup(model.config.model_type)
    ids = token_ids(marks)
    image, image_start, image_end, end = (ids[t] for t in (marks.image, marks.image_start, marks.image_end, marks.end))
    opening, reply = ([ids[token] for token in part] for part in (marks.opening, marks.reply))
    given = examples(random_for("packed"), 3, dict.fromkeys(TASKS, 1.0), 1.0, 4)
    with torch.no_grad():
        batch = pack(given)
        logits, _, asked = answers(model, batch, visual_tokens(model, batch.pixels))
        number = 0
        for example in given:
            found = images(images=[example.image], return_tensors="pt")
            pixels = {key: found[key] for key in ("pixel_values", "image_grid_thw") if key in found}
            ((height, width),) = pack.grids(pixels, 1)
            for _, question, answer in example.questions:
                row = [*opening, *[image_start] * pack.marks, *[image] * (height * width), *[image_end] * pack.marks]
                row += [*encode(question, marks), *reply, *encode(answer, marks), end]
                tokens = torch.tensor([row])
                kind = {"tiny-llava": None, "tiny-gemma": "token_type_ids"}.get(name, "mm_token_type_ids")
                extra = {kind: (tokens == image).long()} if kind else {}
                alone = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), **pixels, **extra).logits[0]
                count = len(encode(answer, marks)) + 1
                assert torch.allclose(logits[asked == number], alone[-count - 1 : -1], atol=1e-4)
                number += 1


def test_attention_in_blocks_equals_attention_with_a_mask():
    model, images = build_model("tiny-qwen3"), build_image_processor("tiny-qwen3")
    given = examples(random_for("blocks"), 4, dict.fromkeys(TASKS, 1.0), 1.0, 6)

    def run(batch):
        logits, targets, asked = answers(model, batch, visual_tokens(model, batch.pixels))
        answer_loss(logits, targets).backward()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        model.zero_grad()
        return logits, targets, asked, gradients

    masked = Packer(model, images)(given)
    assert masked.blocks is None
    wanted = run(masked)
    model.set_attn_implementation(ATTENTION)
    found = run(Packer(model, images)(given))
    assert torch.equal(found[1], wanted[1])
    assert torch.equal(found[2], wanted[2])
    assert torch.allclose(found[0], wanted[0], atol=1e-4)
    for name, gradient in wanted[3].items():
        assert torch.allclose(found[3][name], gradient, atol=1e-3 * float(gradient.abs().max())), name


def test_deepstack_features_reach_the_answers_and_train_the_blocks_below(tmp_path):
    trainer = ModelTrainer("tiny-qwen3", tmp_path, plan=replace(SHORT, bfloat16=True, resampled=1.0))
    mergers = [name for name in trainer.parameters if "deepstack_merger_list" in name and name.endswith("fc2.weight")]
    before = {name: trainer.parameters[name].detach().clone() for name in mergers}
    trainer.step()  # of the warm-up: labels alone
    assert len(mergers) == 3
    assert all(not torch.equal(trainer.parameters[name], before[name]) for name in mergers)
    batch = trainer.batch(SHORT.warmup)
    with torch.no_grad():
        features = visual_tokens(trainer.model, batch.pixels)
        whole, targets, _ = answers(trainer.model, batch, features)
        for level in range(1, 4):
            without = [torch.zeros_like(part) if i == level else part for i, part in enumerate(features)]
            assert not torch.allclose(answers(trainer.model, batch, without)[0], whole, atol=1e-3)
    for _ in range(SHORT.warmup):
        trainer.step()
    assert trainer.progress.loss > 0
    assert len(targets)


def test_a_resampled_picture_shows_the_same_scene_on_another_grid():
    (example,) = examples(random_for("resampled"), 1, {"attribute": 1.0}, 1.0, 1)
    pack = Packer(build_model("tiny-qwen3"), build_image_processor("tiny-qwen3"))
    assert resample(random_for(0), example, 0.0, (0.5, 0.5)) is example
    half, double = (resample(random_for(0), example, 1.0, (factor, factor)) for factor in (0.5, 2.0))
    assert half.image.size == tuple(round(side / 2) for side in example.image.size)
    assert half.scene is example.scene
    counts = [len(pack([each]).dense) for each in (half, example, double)]
    assert 9 <= counts[0] < counts[1] < counts[2] <= 256


def test_a_run_that_was_stopped_gives_the_same_numbers(tmp_path):
    whole = ModelTrainer("tiny-llava", tmp_path / "whole", plan=SHORT)
    whole.run()
    first = ModelTrainer("tiny-llava", tmp_path / "parts", plan=SHORT)
    for _ in range(6):
        first.step()
    first.save()
    second = ModelTrainer("tiny-llava", tmp_path / "parts", plan=SHORT)
    assert second.resume()
    second.run()
    assert second.progress.step == SHORT.steps
    for name, parameter in whole.parameters.items():
        assert torch.equal(parameter, second.parameters[name]), name
    assert whole.progress.accuracy == second.progress.accuracy


def test_a_killed_run_goes_on(tmp_path):
    code = (
        "import sys, torch; torch.set_num_threads(1)\n"
        "from pathlib import Path\n"
        "from vispco_zoo.model_trainer import ModelTrainer\n"
        "from vispco_zoo.recipe import Recipe\n"
        "t = ModelTrainer('tiny-llava', Path(sys.argv[1]), plan=Recipe(steps=10**6, warmup=4, warmup_pictures=1, pictures=1, questions=2))\n"
        "t.run(every=0.0)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=os.environ | {"OMP_NUM_THREADS": "1"})
    file = tmp_path / "checkpoint.safetensors"
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    plan = Recipe(steps=10**6, warmup=4, warmup_pictures=1, pictures=1, questions=2)
    trainer = ModelTrainer("tiny-llava", tmp_path, plan=plan)
    assert trainer.resume()
    before = trainer.progress.step
    trainer.step()
    assert trainer.progress.step == before + 1 > 1


def test_ctrl_c_waits_for_the_end_of_a_step_and_saves_it(tmp_path):
    trainer = ModelTrainer("tiny-llava", tmp_path, plan=SHORT)

    def stop(progress):
        if progress.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        trainer.run(report=stop)
    assert signal.getsignal(signal.SIGINT) is before
    again = ModelTrainer("tiny-llava", tmp_path, plan=SHORT)
    assert again.resume()
    assert again.progress.step == 3


def test_a_run_of_other_settings_is_not_gone_on_with(tmp_path):
    first = ModelTrainer("tiny-llava", tmp_path, plan=SHORT)
    first.step()
    first.save()
    for seed, plan in ((1, SHORT), (0, replace(SHORT, questions=2)), (0, replace(SHORT, warmup=2))):
        with pytest.raises(VispcoError, match=r"1 steps of another run .*--no-resume"):
            ModelTrainer("tiny-llava", tmp_path, seed=seed, plan=plan).resume()
    longer = replace(SHORT, steps=16, polish=4, rounds=(Round(0.5, crowds=0.5),))
    assert ModelTrainer("tiny-llava", tmp_path, plan=longer).resume()


def test_a_plan_survives_its_file():
    plan = replace(SHORT, steps=16, polish=4, rounds=(Round(0.5, crowds=0.5, tower=1.0),))
    assert Recipe.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_the_curve_has_each_step_once(tmp_path):
    trainer = ModelTrainer("tiny-llava", tmp_path, plan=SHORT)
    trainer.curve.write_text('{"step": 2}\n{"step": 4}\n{"step": 6}\n{"ste')
    trainer.progress.step = SHORT.steps - 8
    trainer.run(note_every=2)
    assert [json.loads(line)["step"] for line in trainer.curve.read_text().splitlines()] == [2, 4, 6, 8, 10, 12]


def test_the_seed_decides_everything(tmp_path):
    one, same, other = (ModelTrainer("tiny-gemma", tmp_path, seed=seed, plan=SHORT) for seed in (1, 1, 2))
    for trainer in (one, same, other):
        trainer.step()
    assert all(torch.equal(p, same.parameters[n]) for n, p in one.parameters.items())
    assert not all(torch.equal(p, other.parameters[n]) for n, p in one.parameters.items())


def test_a_few_steps_lower_the_loss(tmp_path):
    trainer = ModelTrainer("tiny-llava", tmp_path, plan=Recipe(steps=1000, warmup=0, pictures=2, questions=4))
    batch = trainer.batch(200)

    def loss():
        with torch.no_grad():
            features = visual_tokens(trainer.model, batch.pixels)
            return float(answer_loss(*answers(trainer.model, batch, features)[:2]))

    before = loss()
    for _ in range(15):
        trainer.progress.step = 200  # the same pictures again, at the full rate
        trainer.step()
    assert loss() < 0.6 * before


def test_a_damaged_checkpoint_is_named(tmp_path):
    file = tmp_path / "checkpoint.safetensors"
    save_checkpoint(file, {"a": torch.ones(2)}, {"step": 3})
    assert load_checkpoint(file)[1] == {"step": 3}
    file.write_bytes(file.read_bytes()[:20])
    with pytest.raises(VispcoError, match=r"checkpoint\.safetensors"):
        load_checkpoint(file)


def test_an_unknown_model_lists_the_known_ones():
    for call in (build_model, recipe):
        with pytest.raises(UnknownNameError, match="tiny-gemma, tiny-llava, tiny-qwen"):
            call("tiny-bert")


def test_labels_say_what_stands_under_a_token():
    (example,) = examples(random_for("labels"), 1, {"table": 1.0}, 1.0, 1)
    grid = token_labels(example.scene, 24, 24).reshape(24, 24, len(CLASSES))
    fields = list(CLASSES)
    for mark in example.scene.marks:
        if mark.char:
            x, y = mark.center
            seen = grid[int(y * 24), int(x * 24), fields.index("char")]
            assert seen == "abcdefghijklmnopqrstuvwxyz0123456789".index(mark.char) + 1
    objects = len(example.scene.objects)
    assert grid[:, :, fields.index("center")].sum() == objects


def test_orthogonalize_makes_singular_values_alike():
    matrices = torch.randn(3, 24, 40, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalize(matrices))
    assert values.min() > 0.5
    assert values.max() < 1.3


def test_a_shift_is_a_rotation_of_the_position_embedding():
    table = sincos_2d(100, 48).reshape(10, 10, 48)
    moved = table[5, 4] @ shift(48, 1.0, 0.0).T
    assert torch.allclose(moved, table[4, 4], atol=1e-4)


def test_the_rate_rises_holds_and_falls_to_zero_in_each_stretch():
    plan = Recipe(steps=2000, warmup=1000)
    for start, top in ((0, plan.warmup_rate), (1000, plan.rate)):
        assert plan.rate_at(start) < plan.rate_at(start + 50) < plan.rate_at(start + 200) == top
        assert plan.rate_at(start + 600) == top
        assert plan.rate_at(start + 999) < 0.01 * top


def test_rounds_of_polish_come_behind_and_change_nothing_before_them():
    plain = Recipe(steps=1000, warmup=200)
    longer = replace(plain, steps=1300, polish=150, rounds=(Round(0.5), Round(1.5, other_questions=2)))
    assert [longer.rate_at(step) for step in range(1000)] == [plain.rate_at(step) for step in range(1000)]
    assert [longer.least_level(step) for step in range(1000)] == [plain.least_level(step) for step in range(1000)]
    for first in (1000, 1150):
        rates = [longer.rate_at(step) for step in range(first, first + 150)]
        assert max(rates[:50]) == max(rates) <= longer.polish_rate
        assert rates[-1] == pytest.approx(longer.polish_rate / 150)
    assert [longer.round_at(step) for step in (999, 1000, 1149)] == [None, longer.rounds[0], longer.rounds[0]]
    assert [longer.round_at(step) for step in (1150, 1299)] == [longer.rounds[1]] * 2


def test_polish_asks_a_counting_scene_about_its_subject():
    only = {"counting": 1.0}
    given = examples(random_for("polish"), 12, only, 1.0, 10, Round(0.5, other_questions=2))
    for example in given:
        counted = [question for task, question, _ in example.questions if task == "counting"]
        assert len(counted) == 1
        assert len(example.questions) <= 3
    before = examples(random_for("polish"), 12, only, 1.0, 10)
    assert max(sum(task == "counting" for task, *_ in example.questions) for example in before) == 3


def test_a_crowd_is_asked_about_what_is_there():
    given = examples(random_for("crowd"), 40, {"counting": 1.0}, 1.0, 10, Round(0.5, crowds=1.0))
    counts = []
    for example in given:
        assert example.scene.fingerprint % 16 in SPLITS["train"]
        assert 5 <= len(example.scene.objects) <= 10
        counts += [int(answer) for task, _, answer in example.questions if task == "counting"]
    assert min(counts) == 1
    assert max(counts) == 5
    assert sum(count > 1 for count in counts) > 0.7 * len(counts)
    assert len(counts) > 3 * len(given)


@pytest.mark.parametrize("tower", [None, 0.5])
def test_answers_train_the_tower_in_a_round_that_says_so(tmp_path, monkeypatch, tower):
    plan = replace(SHORT, warmup=0, steps=8, polish=4, rounds=(Round(0.5, tower=tower),))
    trainer = ModelTrainer("tiny-llava", tmp_path, plan=plan)
    monkeypatch.setattr(trainer.heads, "forward", lambda features, _: (0.0 * features.sum(), {}))
    trainer.progress.step = 4
    moved = {}
    monkeypatch.setattr(trainer.optimizer, "step", lambda _, slow: moved.update(slow))
    trainer.step()
    gradient = trainer.parameters["model.vision_tower.embeddings.patch_embedding.weight"].grad
    assert bool(gradient.any()) == (tower is not None)
    assert set(moved.values()) == {0.1 if tower is None else tower}


def test_scenes_grow_fuller_with_accuracy_and_are_full_before_the_rate_falls(tmp_path):
    plan = Recipe(steps=2000, warmup=1000)
    assert plan.least_level(1000) == 0.1
    assert plan.least_level(1000 + 650) == pytest.approx(1.0)
    trainer = ModelTrainer("tiny-llava", tmp_path, plan=SHORT)
    assert trainer.level() == trainer.progress.level
    trainer.progress.accuracy = dict.fromkeys(TASKS, 0.9)
    assert trainer.level() > trainer.progress.level


def test_codes_write_every_label_in_vectors_that_stay_as_they_are():
    embed = torch.nn.Embedding(len(token_ids()), 32)
    free, fixed = TokenLabelHeads(embed, 32), TokenLabelHeads(embed, 32, codes=True)
    assert free.head.weight.requires_grad
    assert not fixed.head.weight.requires_grad
    nothing = fixed.logits(torch.zeros(1, 32))
    assert all(int(nothing[field].argmax()) == 0 for field in CLASSES if field not in ("x", "y"))
    red = fixed.logits(embed(torch.tensor([token_ids()["red"]])))
    assert int(red["color"].argmax()) == 1
