"""Cuts inside the vision tower: the laws, on every family whose tower is described."""

import threading
from itertools import pairwise

import pytest
import torch
import transformers as tf
from transformers import AttentionInterface

import tiny
from methods.tower import DEPTH, deep, window_order
from vispco import Pruner, Schedule
from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.cost import Exact
from vispco.cost.dimensions import Dimensions
from vispco.families import family_of
from vispco.families.tower_modules import tower_modules
from vispco.scorers import Chain
from vispco.scorers.base import SCORERS, Scorer, Selection, get

L = tiny.LAYERS
FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava", "gemma3", "internvl", "idefics3", "smolvlm")
QWEN = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
CHAIN = "divprune@tower.1+divprune+fastv"
ONE = [tiny.words(2, 1), tiny.picture(5, 5), tiny.words(6, 2)]
TWO = [tiny.words(2, 3), tiny.picture(3, 4), tiny.words(3, 4), tiny.picture(2, 7), tiny.words(4, 5)]
VIDEO = [tiny.words(2, 1), tiny.picture(3, 4, frames=3), tiny.words(5, 2)]
OTHER = [tiny.words(1, 3), tiny.picture(3, 4, frames=3), tiny.words(7, 4)]
BATCHES = {"one": [ONE], "several": [TWO, ONE], "video": [VIDEO], "videos": [VIDEO, OTHER]}
SCHEDULES = {  # cells of tiny squares are few, so that retentions are large
    "once": Schedule.full(L).with_tower({1: 0.6}, DEPTH),
    "before block 0": Schedule.full(L).with_tower({0: 0.75}, DEPTH),
    "twice, then the language model": Schedule.stages({0: 0.4, 2: 0.2}, L).with_tower({1: 0.8, 2: 0.5}, DEPTH),
}
CHAINS = {"before block 0": "uniform@tower.0+divprune+fastv"}


def pruner(which: str, **options) -> Pruner:
    return Pruner(CHAINS.get(which, CHAIN), SCHEDULES[which], **options)


@torch.no_grad()
def last_logits(model, given):
    return model(**given).logits[:, -1]


def pooled(model, given, name):
    """The visual tokens that the tower and the projector make: [T, D]."""
    video = "pixel_values_videos" in given
    if video:
        out = model.model.get_video_features(given["pixel_values_videos"], given["video_grid_thw"], return_dict=True)
    elif name in QWEN:
        out = model.model.get_image_features(given["pixel_values"], given["image_grid_thw"], return_dict=True)
    else:
        options = {"vision_feature_select_strategy": "default"} if name in ("llava", "internvl") else {}
        layer = {"llava": {"vision_feature_layer": -2}, "internvl": {"vision_feature_layer": -1}}.get(name, {})
        out = model.model.get_image_features(pixel_values=given["pixel_values"], **options, **layer, return_dict=True)
    found = out.pooler_output
    parts = found if isinstance(found, list | tuple) else [found]
    return torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])


def patches_of_cells(name, grids):
    """For each visual token in the order of the prompt, its (row of the batch, patches), found cell by cell."""
    found, start = [], 0
    if name in QWEN:
        for t, rows, columns in grids:
            here = []
            for frame in range(t):
                order = window_order(rows, columns) if name == "qwen2_5_vl" else range(rows * columns)
                inside = dict(zip(order, range(rows * columns), strict=True))
                here += [frame * rows * columns + inside[cell] for cell in range(rows * columns)]
            found += [(0, [4 * (start + cell) + k for k in range(4)]) for cell in here]
            start += t * rows * columns
        return found
    front, side = int(name in ("llava", "internvl")), 4
    step = {"llava": 1, "gemma3": 1}.get(name, 2)
    for picture in range(len(grids)):
        for row in range(side // step):
            for column in range(side // step):
                at = [(row * step + a) * side + column * step + b + front for a in range(step) for b in range(step)]
                found.append((picture, at))
    return found


class MaskedTower:
    """The whole tower of an unpruned model, in which no query sees the patches of tokens that have left: the naive way."""

    def __init__(self, model, name, grids, passed):
        self.model, self.cells, self.passed = model, patches_of_cells(name, grids), passed
        base = model.model
        self.tower = (
            base.visual if name in QWEN else base.vision_model if hasattr(base, "vision_model") else base.vision_tower
        )
        self.seen = {}
        AttentionInterface.register("masked-tower", self.attend)

    def __enter__(self):
        self.config = self.tower.config
        self.before = self.config._attn_implementation
        self.config._attn_implementation = "masked-tower"
        return self

    def __exit__(self, *_):
        self.config._attn_implementation = self.before

    def attend(self, module, query, key, value, mask=None, *_, scaling=None, **__):
        block = list(self.seen).index(module) if module in self.seen else len(self.seen)
        start = self.seen.get(module, 0)
        self.seen[module] = start + query.shape[2]
        logits = (
            query.double() @ key.double().transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
        )
        for (picture, patches), passed in zip(self.cells, self.passed, strict=True):
            for patch in patches:
                inside = patch - start if len(query) == 1 and start else patch
                if passed <= block and 0 <= inside < key.shape[2]:
                    logits[picture, :, :, inside] = -1e30
        return (logits.softmax(-1).to(value.dtype) @ value).transpose(1, 2).contiguous(), None


@pytest.mark.parametrize("name", FAMILIES)
def test_full_retention_is_bit_identical(name):
    model, given = deep(name), tiny.inputs(name, [ONE, TWO])
    whole = last_logits(model, given)
    with Pruner(CHAIN, Schedule((1.0,) * L, (1.0,) * DEPTH))(model):
        assert torch.equal(last_logits(model, given), whole)
    assert "get_image_features" not in model.model.__dict__
    assert torch.equal(last_logits(model, given), whole)


@pytest.mark.parametrize("which", SCHEDULES)
@pytest.mark.parametrize("name", FAMILIES)
def test_masking_equals_dropping(name, which):
    model, given = deep(name), tiny.inputs(name, [TWO, ONE])
    with pruner(which)(model):
        dropped = last_logits(model, given)
    with pruner(which, mode="mask")(model):
        masked = last_logits(model, given)
    torch.testing.assert_close(dropped, masked, atol=3e-5, rtol=1e-4)
    assert not torch.allclose(dropped, last_logits(model, given), atol=1e-2)


@torch.no_grad()
def watched_run(model, given, one):
    """Logits of text [n, V], the tokens that were live at each depth, the tower's FLOPs, and the rows that each block was handed."""
    rows = []
    handles = [
        block.register_forward_hook(lambda _, args, __: rows.append(args[0].shape[-2]))
        for block in tower_modules(model, model.model).blocks
    ]
    with one(model):
        logits = model(**given).logits
        live = [*one.tower_survivors(model), *one.survivors(model)]
        flops = one.tower_flops(model).tolist()
    for handle in handles:
        handle.remove()
    visual = torch.isin(given["input_ids"], torch.tensor(family_of(model).visual_token_ids(model)))
    return logits[given["attention_mask"].bool() & ~visual], live, flops, rows


@pytest.mark.parametrize(
    ("attention", "side", "chain"),
    [
        ("sdpa", "left", CHAIN),
        ("eager", "right", "vispruner@tower.1+divprune+fastv"),
        ("sdpa", "right", "ipcv@tower.1+divprune+fastv"),
    ],
)
@pytest.mark.parametrize(
    ("name", "batch"), [(n, b) for n in FAMILIES for b in BATCHES if n in QWEN or "video" not in b]
)
def test_a_masked_tower_computes_every_patch_and_leaves_what_a_cut_one_leaves(name, batch, attention, side, chain):
    model, given = deep(name, attention), tiny.inputs(name, BATCHES[batch], side)
    rest = Schedule.stages({0: 0.4, 2: 0.2}, L)
    schedule = rest.with_tower({1: 0.8, 2: 0.5}, DEPTH, rebuilt=Chain.of(chain).rebuilds)
    dropped, live, spent, rows = watched_run(model, given, Pruner(chain, schedule, record=True))
    masked, same, price, all_rows = watched_run(model, given, Pruner(chain, schedule, mode="mask", record=True))
    torch.testing.assert_close(masked, dropped, atol=1e-4, rtol=1e-4)
    assert all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(live, same, strict=True))
    assert spent == price
    assert rows[-1] < rows[0]
    assert set(all_rows) == {rows[0]}


@pytest.mark.parametrize(("name", "prompt"), [*((n, "pictures") for n in FAMILIES), *((n, "video") for n in QWEN)])
def test_dropping_inside_the_tower_equals_hiding_patches_from_its_attention(name, prompt):
    model, given = deep(name), tiny.inputs(name, [TWO if prompt == "pictures" else VIDEO])
    one = pruner("twice, then the language model")
    with one(model), torch.no_grad():
        last_logits(model, given)
        passed = torch.stack(one.tower_survivors(model)).sum(0)[0].tolist()
        cut = pooled(model, given, name)
    with pruner("twice, then the language model", mode="mask")(model), torch.no_grad():
        masked = pooled(model, given, name)
    grids = family_of(model).layout(model, given).image_sizes
    if prompt == "video":
        grids = [(3, 3, 4)]
    elif name not in QWEN:
        assert [t * h * w for t, h, w in grids] == [tiny.tokens_of(name, part) for part in TWO if part.image]
        grids = [(1, 4, 4)] * 2  # of patches
    with MaskedTower(model, name, grids, passed), torch.no_grad():
        hidden = pooled(model, given, name)
    left = torch.tensor(passed) == DEPTH
    assert 0 < left.sum() < len(left)
    torch.testing.assert_close(cut[left], hidden[left], atol=3e-5, rtol=1e-4)
    torch.testing.assert_close(masked[left], hidden[left], atol=3e-5, rtol=1e-4)
    assert not cut[~left].any()
    assert cut[left].any(-1).all()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_sample_in_a_batch_equals_the_sample_alone(name, side):
    model, one = deep(name), pruner("twice, then the language model")
    batch = tiny.inputs(name, [ONE, TWO], side)
    with one(model), torch.no_grad():
        together = model(**batch).logits
        counts = one.token_counts(model)
        alone = []
        for row, prompt in enumerate((ONE, TWO)):
            x = tiny.inputs(name, [prompt])
            number = sum(part.image is not None for part in prompt)
            first = 0 if row == 0 else 1
            if name in QWEN:
                grids = batch["image_grid_thw"][first : first + number]
                patches = batch["image_grid_thw"].prod(-1)
                x["pixel_values"] = batch["pixel_values"][int(patches[:first].sum()) :][: int(grids.prod(-1).sum())]
            elif name in ("idefics3", "smolvlm"):
                x["pixel_values"] = batch["pixel_values"][row : row + 1, :number]
            else:
                x["pixel_values"] = batch["pixel_values"][first : first + number]
            alone.append(model(**x).logits[0])
            assert torch.equal(one.token_counts(model)[0], counts[row])
    for row, logits in enumerate(alone):
        real = batch["attention_mask"][row].bool().nonzero()[:, 0]
        torch.testing.assert_close(together[row, real[-1]], logits[-1], atol=3e-5, rtol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_packed_pictures_are_cut_as_each_alone(name):
    model, one = deep(name), pruner("once")
    pictures = [tiny.picture(5, 5), tiny.picture(2, 7), tiny.picture(3, 3)]
    several = tiny.inputs(name, [[tiny.words(1, 1), *pictures, tiny.words(4, 2)]])
    with one(model), torch.no_grad():
        packed, start = pooled(model, several, name), 0
        for number, part in enumerate(pictures):
            x = tiny.inputs(name, [[tiny.words(1, 1), part, tiny.words(4, 2)]])
            if name in QWEN:
                patches = several["image_grid_thw"].prod(-1)
                x["pixel_values"] = several["pixel_values"][int(patches[:number].sum()) :][: int(patches[number])]
            elif name in ("idefics3", "smolvlm"):
                x["pixel_values"] = several["pixel_values"][:, number : number + 1]
            else:
                x["pixel_values"] = several["pixel_values"][number : number + 1]
            alone = pooled(model, x, name)
            torch.testing.assert_close(packed[start : start + len(alone)], alone, atol=1e-5, rtol=1e-5)
            start += len(alone)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_language_model_sees_a_subset_of_what_the_tower_left(name):
    model, given = deep(name), tiny.inputs(name, [TWO, ONE])
    one = pruner("twice, then the language model", record=True)
    with one(model):
        last_logits(model, given)
        depth = [*one.tower_survivors(model), *(each.cpu() for each in one.survivors(model))]
        counts = one.token_counts(model)
    for before, after in pairwise(depth):
        assert not (after & ~before).any()
    assert torch.equal(torch.stack([each.sum(-1) for each in depth[DEPTH:]], -1), counts)
    assert (depth[1].sum(-1) < depth[0].sum(-1)).all()
    assert (counts[:, 0] <= depth[DEPTH - 1].sum(-1)).all()


def whole_flops(model, given):
    last_logits(model, given)  # the first prefill of a model checks its attention
    return tiny.prefill_flops(model, given)


PROMPTS = {"one": ONE, "two": TWO, "video": VIDEO}


@pytest.mark.parametrize("which", SCHEDULES)
@pytest.mark.parametrize(("name", "prompt"), [(n, p) for n in FAMILIES for p in PROMPTS if p != "video" or n in QWEN])
def test_flops_of_a_cut_tower_are_exact_to_the_digit(name, which, prompt):
    model, given, one = deep(name), tiny.inputs(name, [PROMPTS[prompt]]), pruner(which)
    cost = Exact(Dimensions.from_config(model.config))
    with one(model):
        counted = whole_flops(model, given)
        spent = int(one.tower_flops(model)) + int(cost.bill(one.token_counts(model), one.workload(model)))
    assert counted == spent


INSIDE = [
    *(name for name in SCORERS if get(name).serves_tower),
    "aim-merge(by_size=true)",
    "aim-merge(by_size=true,by_keys=true)",
]


@pytest.mark.parametrize("scorer", INSIDE)
@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl", "llava", "gemma3", "internvl", "idefics3"])
def test_every_scorer_inside_the_tower_keeps_the_laws(name, scorer):
    model, chain = deep(name), f"{scorer}@tower.1+fastv"
    stages, rebuilt = {1: 0.8, 2: 0.5}, Chain.of(chain).rebuilds
    schedule = Schedule.single(2, 0.3, L).with_tower(stages, DEPTH, rebuilt=rebuilt)
    cost = Exact(Dimensions.from_config(model.config))
    one, found = Pruner(chain, schedule), []
    with one(model):
        for prompt in (TWO, ONE):
            given = tiny.inputs(name, [prompt])
            counted = whole_flops(model, given)
            found.append(last_logits(model, given))
            assert counted == int(one.tower_flops(model)) + int(cost.bill(one.token_counts(model), one.workload(model)))
    masking = Pruner(chain, schedule, mode="mask")
    if any(each.merges for _, each in masking.chain.tower):
        with pytest.raises(InvalidInputError, match="cannot be expressed by a mask"):
            masking.apply(model)
        return
    with masking(model):
        torch.testing.assert_close(last_logits(model, given), found[-1], atol=3e-5, rtol=1e-4)


def naive_merge(states, sizes, count, metric):
    """ToMe on one picture, token by token: even ones into the most similar odd one, the best pairs first; states [n, D]."""
    unit = torch.nn.functional.normalize(metric, dim=-1)
    pairs = []
    for even in range(0, len(states), 2):
        odd = max(range(1, len(states), 2), key=lambda n: float(unit[even] @ unit[n]))
        pairs.append((float(unit[even] @ unit[odd]), even, odd))
    into = list(range(len(states)))
    for _, even, odd in sorted(pairs, key=lambda pair: -pair[0])[: len(states) - count]:
        into[even] = odd
    kept = sorted(set(into))
    rows = [[n for n, target in enumerate(into) if target == each] for each in kept]
    merged = [sum(states[n] * sizes[n] for n in row) / sum(sizes[n] for n in row) for row in rows]
    return torch.stack(merged), [sum(sizes[n] for n in row) for row in rows]


@pytest.mark.parametrize("by_keys", [False, True], ids=["states", "keys"])
def test_merging_before_each_block_is_tome_with_sizes_in_attention(by_keys):
    model, given = deep("llava"), tiny.inputs("llava", [ONE])
    counts = {1: 13, 2: 9}
    schedule = Schedule.full(L).with_tower({block: count / 16 for block, count in counts.items()}, DEPTH)
    chain = f"aim-merge(by_size=true,by_keys={str(by_keys).lower()})@tower.1+fastv"
    with Pruner(chain, schedule)(model), torch.no_grad():
        found = pooled(model, given, "llava")
    tower, sizes, keys = model.model.vision_tower, [1.0] * 16, torch.empty(0)
    with torch.no_grad():
        hidden = tower.pre_layrnorm(tower.embeddings(given["pixel_values"]))
        for block, layer in enumerate(tower.encoder.layers[:3]):
            if block in counts:
                metric = keys[0, 1:].unflatten(-1, (2, -1)).mean(1) if by_keys else hidden[0, 1:]  # over two heads
                merged, sizes = naive_merge(hidden[0, 1:], sizes, counts[block], metric)
                hidden = torch.cat([hidden[:, :1], merged[None]], dim=1)
            keys = layer.self_attn.k_proj(layer.layer_norm1(hidden))
            bias = torch.tensor([1.0, *sizes]).log()[None, None, None]
            hidden = layer(hidden, bias)
        expected = model.model.multi_modal_projector(hidden[0, 1:])
    torch.testing.assert_close(found[found.any(-1)], expected, atol=3e-5, rtol=1e-4)


def test_videos_are_not_merged_inside_the_tower():
    model, given = deep("qwen2_vl"), tiny.inputs("qwen2_vl", [VIDEO])
    one = Pruner("aim-merge(by_size=true)@tower.1+fastv", SCHEDULES["once"])
    with one(model), pytest.raises(UnsupportedModelError, match="serves pictures, not videos"):
        last_logits(model, given)


def test_the_choice_by_attention_and_diversity_is_that_of_patches_read_one_by_one():
    """VisPruner with nothing but attention: the cells that the class token of the block before looks at most."""
    model, given = deep("llava"), tiny.inputs("llava", [ONE])
    seen = []

    def spy(module, query, key, value, *_, scaling=None, **__):
        seen.append((query @ key.transpose(2, 3) * scaling).softmax(-1).mean(1)[:, 0, 1:])
        return torch.nn.functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).contiguous(), None

    AttentionInterface.register("tower-spy", spy)
    config = model.model.vision_tower.config
    before, config._attn_implementation = config._attn_implementation, "tower-spy"
    try:
        last_logits(model, given)
    finally:
        config._attn_implementation = before
    one = Pruner("vispruner(important_ratio=1)@tower.1+fastv", SCHEDULES["once"])
    with one(model):
        last_logits(model, given)
        kept = one.tower_survivors(model)[1][0]
    assert set(kept.nonzero()[:, 0].tolist()) == set(seen[0][0].topk(10).indices.tolist())


@pytest.mark.parametrize("name", FAMILIES)
def test_generate_writes_what_repeated_prefills_write(name):
    model, given = deep(name), tiny.inputs(name, [ONE])
    given = {k: v for k, v in given.items() if k != "mm_token_type_ids" or name in QWEN}
    with pruner("twice, then the language model")(model), torch.no_grad():
        written = model.generate(**given, max_new_tokens=3, do_sample=False, pad_token_id=0, eos_token_id=None)
        first = last_logits(model, given).argmax(-1)
    assert written[0, given["input_ids"].shape[1]] == first[0]


def test_beams_over_a_cut_tower_are_each_cut_alike():
    model, given = deep("qwen2_5_vl"), tiny.inputs("qwen2_5_vl", [ONE, TWO])
    with pruner("once")(model), torch.no_grad():
        one = model.generate(**given, max_new_tokens=2, do_sample=False, pad_token_id=0, eos_token_id=None)
        several = model.generate(
            **given,
            max_new_tokens=2,
            do_sample=True,
            top_k=1,
            num_return_sequences=2,
            pad_token_id=0,
            eos_token_id=None,
        )
    assert torch.equal(several[::2], one)
    assert torch.equal(several[1::2], one)


def test_threads_cut_their_own_pictures():
    model = deep("qwen2_5_vl")
    prompts = [
        tiny.inputs("qwen2_5_vl", [[tiny.words(2, 1), tiny.picture(r, c), tiny.words(4, 2)]])
        for r, c in ((5, 5), (2, 6), (3, 7))
    ]
    with pruner("once")(model):
        expected = [last_logits(model, x) for x in prompts]
        found = {}

        def work(number):
            found[number] = [last_logits(model, prompts[number]) for _ in range(4)]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    for number, alone in enumerate(expected):
        for logits in found[number]:
            torch.testing.assert_close(logits, alone, atol=1e-5, rtol=1e-5)


def test_a_siglip_tower_with_a_pooling_head_is_cut_and_counted():
    torch.manual_seed(0)
    config = tf.LlavaConfig(
        text_config=tf.LlamaConfig(**tiny.TEXT),
        vision_config=tf.SiglipVisionConfig(**{**tiny.CLIP, "num_hidden_layers": DEPTH}),
        image_token_id=tiny.IMAGE,
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
    )
    model, given, one = tf.LlavaForConditionalGeneration(config).eval(), tiny.inputs("llava", [TWO]), pruner("once")
    with one(model):
        counted = whole_flops(model, given)
        cost = Exact(Dimensions.from_config(model.config))
        assert counted == int(one.tower_flops(model)) + int(cost.bill(one.token_counts(model), one.workload(model)))
        dropped = last_logits(model, given)
    with pruner("once", mode="mask")(model):
        torch.testing.assert_close(last_logits(model, given), dropped, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("chain", "schedule", "words"),
    [
        (CHAIN, Schedule.full(L).with_tower({1: 0.5}, 3), "3 retentions of the vision tower, which has 4 blocks"),
        ("fastv", Schedule.full(L).with_tower({1: 0.5}, 4), "has no scorer. Name one, such as 'divprune@tower.1"),
        ("divprune@tower.2+fastv", Schedule.full(L).with_tower({1: 0.5}, 4), "before block 1 of the vision tower"),
        (CHAIN, Schedule.full(L).with_tower({3: 0.5}, 4), "the projector reads what enters block 3"),
        (
            "divprune@tower.1+visionzip",
            Schedule.full(L).with_tower({1: 0.5}, 4),
            "reads the states of the whole vision tower",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(chain, schedule, words):
    with pytest.raises((InvalidInputError, UnsupportedModelError), match=words):
        Pruner(chain, schedule).apply(deep("llava"))


class KeepsNone(Scorer):
    name = "keeps-none"
    needs_attention = False

    def select(self, context):
        return Selection(torch.zeros_like(context.live))


def test_scorers_that_cannot_choose_inside_a_tower_are_refused():
    with pytest.raises(InvalidInputError, match="Put it at block 1 or deeper"):
        Pruner("vispruner@tower.0+fastv", SCHEDULES["once"])
    none = {"tower.1": KeepsNone(), 1: "fastv"}
    with (
        Pruner(none, SCHEDULES["once"])(deep("llava")) as model,
        pytest.raises(InvalidInputError, match="kept 0 cells"),
    ):
        last_logits(model, tiny.inputs("llava", [ONE]))


def test_a_tower_that_is_not_described_refuses_a_cut():
    model = tiny.build("llava_next")
    with pytest.raises(UnsupportedModelError, match="not described"):
        Pruner(CHAIN, SCHEDULES["once"]).apply(model)


@pytest.mark.parametrize("name", ["qwen2_5_vl", "llava"])
def test_masking_inside_a_tower_with_flash_attention_is_refused(name):
    model = deep(name)
    config = tower_modules(model, model.model).tower.config
    config._attn_implementation_internal = "flash_attention_2"  # no kernel of it is needed
    try:
        with pytest.raises(UnsupportedModelError, match=r"'flash_attention_2'.*eager and sdpa.*mode='drop'"):
            pruner("once", mode="mask").apply(model)
        with pruner("once")(model):  # dropping is served
            pass
    finally:
        config._attn_implementation_internal = "sdpa"


def test_features_that_were_encoded_without_the_pruner_are_refused():
    model, given = deep("llava"), tiny.inputs("llava", [ONE])
    encoded = model.model.get_image_features(
        given.pop("pixel_values"), vision_feature_layer=-2, vision_feature_select_strategy="default", return_dict=True
    )
    with pruner("once")(model), pytest.raises(UnsupportedModelError, match="encoded without it"):
        model(**given, mm_encoder_outputs={"image": encoded})


def test_a_visual_token_whose_output_is_read_may_not_leave_in_the_tower():
    model, given = deep("llava"), tiny.inputs("llava", [[tiny.words(2, 1), tiny.picture()]])
    one = Pruner(CHAIN, Schedule.full(L).with_tower({1: 0.1}, DEPTH))
    with one(model), pytest.raises(InvalidInputError, match="Put text behind the picture"):
        last_logits(model, given)
