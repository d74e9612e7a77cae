"""Methods that choose before the language model keep what a naive reading of their cards keeps. The laws are in `test_laws`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import pytest
import torch

import operation_counts as operations
from engine.naive import record_layers
from methods import naive_pre_llm as naive
from methods.tower import DEPTH, WHOLE, Tower, deep
from tiny import BUILDERS, DEFAULT, FIRST_CLASS, IMAGE, LAYERS, VIDEO, build, inputs, picture, words
from vispco import Pruner, Schedule
from vispco.core.cut_layout import CutLayout
from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.core.layout import TokenLayout
from vispco.core.small_arrays import all_on_devices
from vispco.families import family_of
from vispco.scorers import Chain, cdpruner, divprune, get, scope
from vispco.scorers.context import ScoringContext, VisionRecord

SAMPLES = {
    "one picture": DEFAULT,
    "two pictures": (words(1, 3), picture(5, 8), words(2, 7), picture(4, 2), words(4, 4)),
    "one token": (words(3, 5), picture(1, 1), words(2, 6)),
}
BY_SAMPLE = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids")
MIDDLE = 0.5


def sizes_of(name, sample):
    """Token grids of a sample's pictures."""
    return [part.image if name.startswith("qwen") else (4, 4) for part in sample if part.image]


def alone(name, sample):
    """A sample by itself, with the pixels that it has in a batch of all."""
    before = list(SAMPLES).index(sample)
    x = inputs(name, [()] * before + [SAMPLES[sample]])
    return {key: value[before:] if key in BY_SAMPLE else value for key, value in x.items()}


@dataclass
class Seen:
    """What a method may look at in the tokens of one sample that are left, as lists."""

    states: list
    text: list
    sizes: list
    features: list = field(default_factory=list)
    attention: dict = field(default_factory=dict)
    received: dict = field(default_factory=dict)
    keys: list = field(default_factory=list)
    left: list | None = None

    def __post_init__(self):
        self.left = list(range(len(self.states))) if self.left is None else self.left
        self.where = naive.cells(self.sizes, self.left)

    def only(self, left, states=None):
        def cut(values):
            return [values[i] for i in left] if values else []

        blocks = [{b: cut(v) for b, v in d.items()} for d in (self.attention, self.received)]
        states = self.states if states is None else states
        return Seen(cut(states), self.text, self.sizes, cut(self.features), *blocks, cut(self.keys), left)

    def pictures(self):
        """For each picture its rows, its columns, and which of its cells are left."""
        return [
            (rows, columns, [r * columns + c for p, r, c in self.where if p == number])
            for number, (rows, columns) in enumerate(self.sizes)
        ]


@cache
def seen_in(name, sample):
    tower = Tower(name, alone(name, sample), sizes_of(name, SAMPLES[sample]))
    depth = DEPTH - (name == "llava")  # LLaVA's projector does not read the last block
    middle = int(MIDDLE * depth)
    if name == "qwen2_5_vl":
        middle = min(WHOLE, key=lambda block: (abs(block - middle), block))
    attention = {-1: tower.attention(depth - 1), MIDDLE: tower.attention(middle)}
    received = {-1: tower.received(depth - 1), MIDDLE: tower.received(middle)}
    return Seen(tower.states, tower.text, tower.sizes, tower.features, attention, received, tower.keys(depth - 1))


NAIVE = {
    "divprune": lambda seen, k: naive.divprune(seen.states, k),
    "pixelprune": lambda seen, k: naive.pixelprune(seen.states, seen.where, k),
    "cdpruner": lambda seen, k: naive.cdpruner(seen.states, seen.text, k),
    "cdpruner(variant=openvino,relevance_weight=0.3)": lambda s, k: naive.cdpruner_openvino(s.states, s.text, k, 0.3),
    "uniform": lambda seen, k: naive.uniform(seen.pictures(), k),
    "lrcp(rank=2)": lambda seen, k: naive.lrcp(seen.states, k, 2),
    "evs": lambda seen, k: naive.uniform(seen.pictures(), k),  # no frame has one before it
    "vidcom2": lambda seen, k: naive.vidcom2(seen.states, [(number, 0) for number, _, _ in seen.where], k),
    "visionzip(merge=false,contextual=0.3)": lambda s, k: naive.visionzip(s.attention[-1], s.keys, s.states, k, "0.3")[
        0
    ],
    "vispruner": lambda seen, k: naive.vispruner(seen.attention[-1], seen.features, k),
    "vispruner(important_ratio=0.1)": lambda s, k: naive.vispruner(s.attention[-1], s.features, k, "0.1"),
    "scope": lambda seen, k: naive.scope(seen.attention[-1], seen.features, k),
    "hiprune(alpha=0.8,block=0.5)": lambda s, k: naive.hiprune(s.received[MIDDLE], s.received[-1], s.where, k, 0.8),
    "vscan(merge=false,block=0.5)": lambda s, k: naive.vscan(s.attention[MIDDLE], s.attention[-1], s.where, s.sizes, k),
}
OWN_COUNT = "prumerge(merge=false)"
NAIVE[OWN_COUNT] = lambda seen, k: naive.prumerge(seen.attention[-1], seen.keys, seen.states, k)[0]
METHODS = list(NAIVE)


def by_attention(seen, count):
    return naive.best_first(seen.attention[-1])[:count]


def vscan_merged(seen, count):
    kept = NAIVE["vscan(merge=false,block=0.5)"](seen, count)
    return kept, naive.vscan_merge(seen.states, kept)


MERGING = {
    "visionzip": lambda seen, k: naive.visionzip(seen.attention[-1], seen.keys, seen.states, k),
    "visionzip(contextual=0.3)": lambda seen, k: naive.visionzip(seen.attention[-1], seen.keys, seen.states, k, "0.3"),
    "vscan(block=0.5)": vscan_merged,
    "prumerge": lambda seen, k: naive.prumerge(seen.attention[-1], seen.keys, seen.states, k),
    "prumerge(adaptive=false)": lambda s, k: naive.prumerge(s.attention[-1], s.keys, s.states, k, adaptive=False),
    "aim-merge": lambda seen, k: naive.aim_merge(seen.states, seen.where, k),
}


def counts_of(name, sample, retention):
    total = sum(rows * columns for rows, columns in sizes_of(name, SAMPLES[sample]))
    return tuple(int(r * total + 0.5) for r in retention)


@cache
def expected(method, name, sample, counts):
    """Which tokens each layer sees, by the naive method: a tuple of places for each count."""
    seen = seen_in(name, sample)
    left, out = list(range(len(seen.states))), []
    for count in counts:
        if count < len(left) or (method == OWN_COUNT and not out):
            chooses = by_attention if method == OWN_COUNT and out else NAIVE[method]  # its own count holds at layer 0
            left = sorted(left[i] for i in chooses(seen.only(left), count))
        out.append(left)
    return out


@torch.no_grad()
def survivors(method, name, samples, retention):
    """Places that each layer sees for each sample: [B][L]."""
    model, pruner = deep(name), Pruner(method, Schedule(retention), record=True)
    with pruner(model):
        model(**inputs(name, [SAMPLES[s] for s in samples]))
        masks = pruner.survivors(model)
    return [[mask[b].nonzero()[:, 0].tolist() for mask in masks] for b in range(len(samples))]


@pytest.mark.parametrize("retention", [(0.6, 0.6, 0.3, 0.1), (1.0, 0.5, 0.0, 0.0)], ids=["from layer 0", "to none"])
@pytest.mark.parametrize("name", FIRST_CLASS)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_keeps_what_a_naive_loop_keeps(method, name, retention):
    samples = [s for s in SAMPLES if s != "one token" or name.startswith("qwen")]
    kept = survivors(method, name, samples, retention)
    for sample, rows in zip(samples, kept, strict=True):
        assert rows == expected(method, name, sample, counts_of(name, sample, retention)), sample


@torch.no_grad()
def entering(method, name, samples, retention, layer, side="left"):
    """What a layer is handed under a pruner: [B, M, D], and the places that are left, [B][n]."""
    model, pruner = deep(name), Pruner(method, Schedule(retention), record=True)
    x = inputs(name, [SAMPLES[s] for s in samples], side=side)
    with pruner(model):
        states = record_layers(model, x)[layer][0]
        kept = pruner.survivors(model)[layer]
    return states, [row.nonzero()[:, 0].tolist() for row in kept]


@pytest.mark.parametrize("layer", [0, 2])
@pytest.mark.parametrize("name", FIRST_CLASS)
@pytest.mark.parametrize("method", MERGING)
def test_merged_tokens_are_what_a_naive_loop_merges(method, name, layer):
    retention = (*[1.0] * layer, *[0.3] * (LAYERS - layer))
    samples = [s for s in SAMPLES if s != "one token" or name.startswith("qwen")]
    for side in ("left", "right"):
        handed, kept = entering(f"{method}@{layer}", name, samples, retention, layer, side)
        for b, sample in enumerate(samples):
            x = alone(name, sample)
            ids = x["input_ids"][0].tolist()
            with torch.no_grad():
                plain = record_layers(deep(name), x)[layer][0][0].double()
            places = [i for i, token in enumerate(ids) if token == IMAGE]
            seen = seen_in(name, sample).only(list(range(len(places))), [plain[i].tolist() for i in places])
            merging = "prumerge(adaptive=false)" if method == "prumerge" and layer else method
            wanted, merged = MERGING[merging](seen, counts_of(name, sample, retention)[layer])
            assert kept[b] == sorted(wanted)
            rows = [
                merged.get(places.index(i), plain[i]) if token == IMAGE else plain[i]
                for i, token in enumerate(ids)
                if token != IMAGE or places.index(i) in wanted
            ]
            rows = torch.stack([torch.as_tensor(row, dtype=torch.double) for row in rows])
            torch.testing.assert_close(handed[b][-len(rows) :].double(), rows, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("method", MERGING)
def test_merging_holds_the_count_on_the_way_to_nothing(method):
    retention = (0.5, 0.2, 0.1, 0.0)
    kept = survivors(method, "qwen2_5_vl", list(SAMPLES), retention)
    for sample, rows in zip(SAMPLES, kept, strict=True):
        most = list(counts_of("qwen2_5_vl", sample, retention))
        if method == "prumerge":
            assert all(len(row) <= count for row, count in zip(rows, most, strict=True))
        else:
            assert [len(row) for row in rows] == most


def context_of(seen, counts, live=None):
    """A context by hand, from what is seen of each sample of a batch: all have as many tokens, of the same grids."""
    states, text = (torch.tensor([getattr(s, part) for s in seen]) for part in ("states", "text"))
    batch, visual = states.shape[:2]
    mask = (torch.arange(visual + text.shape[1]) < visual).expand(batch, -1)
    layout = TokenLayout.build(mask, image_sizes=tuple((1, *size) for s in seen for size in s.sizes))
    live = torch.ones(batch, visual, dtype=torch.bool) if live is None else live

    def by_block(part):
        return {block: torch.tensor([getattr(s, part)[block] for s in seen]) for block in getattr(seen[0], part)}

    record = VisionRecord(
        torch.tensor([s.features for s in seen]),
        by_block("attention"),
        by_block("received"),
        {-1: torch.tensor([s.keys for s in seen])},
    )
    return ScoringContext(
        0,
        layout,
        live,
        torch.tensor(counts),
        torch.cat([states, text], dim=1),
        torch.ones(batch, visual),
        tuple(counts),
        hidden=states,
        vision=record,
    )


def made_up(seed, sizes, *, ties=False):
    """What is seen of a sample without a model; with ties few different vectors and attentions, exact in floats."""
    generator = torch.Generator().manual_seed(seed)
    number = sum(rows * columns for rows, columns in sizes)

    def vectors(n):
        if not ties:
            return torch.randn(n, 8, generator=generator).tolist()
        signs = torch.tensor([[1.0, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1]])
        return signs[torch.randint(3, (n,), generator=generator)].tolist()

    def values():
        drawn = torch.rand(number, generator=generator)
        return ((drawn * 4).floor() / 4 + 0.25 if ties else drawn).tolist()

    blocks = [{MIDDLE: values(), -1: values()} for _ in range(2)]
    return Seen(vectors(number), vectors(3), sizes, vectors(number), *blocks, vectors(number))


def chosen(method, context):
    selection = Chain.of(method).scorers[0].select(context)
    assert bool((selection.keep <= context.live).all())
    assert bool((selection.keep.sum(-1) <= context.counts).all())
    if selection.scores is not None:  # what a relaxation ranks by agrees with the choice
        kept = selection.scores.masked_fill(~selection.keep, torch.inf).amin(-1)
        left = selection.scores.masked_fill(selection.keep | ~context.live, -torch.inf).amax(-1)
        assert bool((kept >= left).all())
    return [row.nonzero()[:, 0].tolist() for row in selection.keep]


ALL = NAIVE | {method: lambda seen, k, full=full: full(seen, k)[0] for method, full in MERGING.items()}


GREEDY = [method for method in ALL if method.startswith(("divprune", "cdpruner", "scope"))]


@pytest.mark.parametrize("ties", [False, True], ids=["any values", "ties"])
@pytest.mark.parametrize("method", GREEDY)
def test_greedy_steps_of_a_device_choose_the_same(method, ties, monkeypatch):
    for module in (divprune, cdpruner, scope):
        monkeypatch.setattr(module, "GROWTH", 0.0)  # blocks of one token
    with all_on_devices():
        test_counts_and_live_tokens_differ_by_sample(method, ties)


@pytest.mark.parametrize("method", ["divprune", "cdpruner"])
def test_a_choice_can_be_exact_on_a_device(method):
    context = context_of([made_up(0, [(8, 8)])], [30])
    exact = chosen(method, context)
    with all_on_devices():
        assert chosen(f"{method}(exact=true)", context) == exact


def test_a_step_of_a_device_is_a_few_operations():
    scorer, seen = get("divprune"), [made_up(0, [(8, 8)])]
    with all_on_devices():
        few, many = (operations.count(scorer.select, context_of(seen, [n])).number for n in (10, 50))
    assert many - few <= 40 * 6


IN_BLOCKS = [
    f"{name}(exact=false{more})"
    for name, more in (("divprune", ""), ("cdpruner", ""), ("scope", ""), ("cdpruner", ",variant=openvino"))
]


def diverse(seed, number=90):
    """Many tokens of one sample, none like another."""
    seen = made_up(seed, [(9, number // 9)])
    generator = torch.Generator().manual_seed(seed)
    seen.states, seen.features = (torch.randn(number, 128, generator=generator).tolist() for _ in range(2))
    seen.text = torch.randn(3, 128, generator=generator).tolist()
    return seen


@pytest.mark.parametrize("method", IN_BLOCKS)
def test_blocks_choose_most_of_what_single_picks_choose(method):
    context = context_of([diverse(seed) for seed in range(4)], [60, 40, 20, 7])
    same = [
        len({*blocks} & {*exact}) / len(exact)
        for blocks, exact in zip(chosen(method, context), chosen(method.replace("false", "true"), context), strict=True)
    ]
    assert min(same) >= (0.7 if method.startswith("divprune") else 0.8)


@pytest.mark.parametrize("method", IN_BLOCKS[:3])
def test_one_of_two_equal_tokens_waits_in_a_block(method):
    """Thirty vectors stand there twice each: thirty picks see them all, though the last block has ten or more picks."""
    seen = made_up(0, [(6, 10)])
    generator = torch.Generator().manual_seed(0)
    kinds, place = torch.randn(30, 64, generator=generator), torch.randperm(60, generator=generator) % 30
    seen.states = seen.features = kinds[place].tolist()
    seen.text = torch.zeros(1, 64).tolist()  # all are as relevant
    seen.attention[-1] = [1.0] * 60
    kept = chosen(method, context_of([seen], [30]))[0]
    assert sorted(place[kept].tolist()) == list(range(30))


@pytest.mark.parametrize("method", IN_BLOCKS)
def test_a_set_in_blocks_does_not_depend_on_the_batch(method):
    seen, counts = [diverse(seed) for seed in range(3)], [60, 23, 9]
    together = chosen(method, context_of(seen, counts))
    assert together == [chosen(method, context_of([one], [count]))[0] for one, count in zip(seen, counts, strict=True)]
    if "openvino" not in method:
        assert {*chosen(method, context_of([seen[0]], [30]))[0]} <= {*together[0]}


@pytest.mark.parametrize("ties", [False, True], ids=["any values", "ties"])
@pytest.mark.parametrize("method", IN_BLOCKS)
def test_blocks_keep_as_many_live_tokens_as_were_asked_for(method, ties):
    seen = [made_up(seed, [(9, 5), (1, 1), (3, 4)], ties=ties) for seed in range(5)]
    live = torch.rand(5, 58, generator=torch.Generator().manual_seed(1)) < 0.7
    live[4] = torch.arange(58) == 50
    counts = [17, int(live[1].sum()), 0, int(live[3].sum()) - 1, 1]
    found = chosen(method, context_of(seen, counts, live))
    if "openvino" not in method:  # of a single live token, one half has none
        assert [len(kept) for kept in found] == counts


@pytest.mark.parametrize("ties", [False, True], ids=["any values", "ties"])
@pytest.mark.parametrize("method", ALL)
def test_counts_and_live_tokens_differ_by_sample(method, ties):
    seen = [made_up(seed, [(9, 5), (1, 1), (3, 4)], ties=ties) for seed in range(5)]
    live = torch.rand(5, 58, generator=torch.Generator().manual_seed(1)) < 0.7
    live[0] = True
    live[4] = False
    live[4, 50] = True
    counts = [17, int(live[1].sum()), 0, 1, 1]
    found = chosen(method, context_of(seen, counts, live))
    for b, count in enumerate(counts):
        left = live[b].nonzero()[:, 0].tolist()
        wanted = ALL[method](seen[b].only(left), count)
        assert found[b] == sorted(left[i] for i in wanted), b


@pytest.mark.parametrize("method", ALL)
def test_equal_tokens_go_to_the_earlier_one(method):
    seen = made_up(3, [(4, 4)], ties=True)
    for count in range(16):
        assert chosen(method, context_of([seen], [count]))[0] == sorted(ALL[method](seen, count)), count


def test_an_even_quarter_of_a_grid_is_every_second_row_and_column():
    seen = made_up(0, [(8, 8)])
    wanted = [8 * row + column for row in range(0, 8, 2) for column in range(0, 8, 2)]
    assert chosen("uniform", context_of([seen], [16]))[0] == wanted
    assert chosen("uniform", context_of([seen], [1]))[0] == [8 * 4 + 4]


def test_pictures_get_even_shares():
    kept = chosen("uniform", context_of([made_up(0, [(2, 4)] * 3)], [6]))[0]
    assert [sum(k // 8 == part for k in kept) for part in range(3)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cdpruner", {"variant": "intel"}),
        ("cdpruner", {"relevance_weight": 1.5}),
        ("visionzip", {"contextual": 2}),
        ("vispruner", {"important_ratio": -1}),
        ("hiprune", {"alpha": 3}),
        ("lrcp", {"rank": -1}),
        ("evs", {"first": 1.5}),
    ],
)
def test_options_out_of_range_are_refused(name, options):
    with pytest.raises(InvalidInputError, match=name):
        get(name, **options)


def test_they_may_choose_before_the_language_model_and_at_any_depth():
    for method in ALL:
        assert Chain.of(method).earliest_layer == 0
        assert Chain.of(f"{method}@{LAYERS - 1}").earliest_layer == LAYERS - 1


def test_published_blocks_of_the_tower():
    """HiPrune and VScan name blocks of CLIP (24) and Qwen2.5-VL (32); shares of the depth lead to the same ones."""
    from vispco.engine.vision import _block_number

    whole = [7, 15, 23, 31]
    assert [_block_number(get("hiprune").block, depth, blocks) for depth, blocks in ((23, range(23)), (32, whole))] == [
        8,
        15,
    ]
    assert [_block_number(get("vscan").block, depth, blocks) for depth, blocks in ((23, range(23)), (32, whole))] == [
        5,
        7,
    ]


def test_llavas_projector_reads_all_blocks_but_the_last():
    model = deep("llava")
    assert len(family_of(model).vision_attentions(model)) == DEPTH - 1


@pytest.mark.parametrize(
    "method", ["uniform", "hiprune(alpha=0.8,block=0.5)", "vscan(merge=false,block=0.5)", "aim-merge"]
)
def test_frames_of_a_video_are_pictures(method):
    seen = [made_up(seed, [(3, 4)] * 3) for seed in range(2)]
    apart = context_of(seen, [11, 5])
    video = context_of(seen, [11, 5])
    video.layout = TokenLayout.build(video.layout.visual, image_sizes=((2, 3, 4), (1, 3, 4)) * 2)
    assert chosen(method, video) == chosen(method, apart)


CLIPS = ((4, 3, 4), (1, 2, 3), (2, 2, 2))  # frames, rows, columns
CELLS = [
    (clip, frame, row, column)
    for clip, (frames, rows, columns) in enumerate(CLIPS)
    for frame in range(frames)
    for row in range(rows)
    for column in range(columns)
]
OF_CLIPS = {
    "evs": lambda states, left, k: naive.evs(states, CELLS, left, k),
    "evs(first=0.2)": lambda states, left, k: naive.evs(states, CELLS, left, k, "0.2"),
    "evs(first=1)": lambda states, left, k: naive.evs(states, CELLS, left, k, "1"),
    "vidcom2": lambda states, left, k: [
        left[i] for i in naive.vidcom2([states[p] for p in left], [CELLS[p][:2] for p in left], k)
    ],
}


@pytest.mark.parametrize("ties", [False, True], ids=["any values", "ties"])
@pytest.mark.parametrize("method", OF_CLIPS)
def test_a_method_for_videos_keeps_what_a_naive_loop_keeps(method, ties):
    seen = [made_up(seed, [(2, len(CELLS) // 2)], ties=ties) for seed in range(4)]
    live = torch.rand(4, len(CELLS), generator=torch.Generator().manual_seed(2)) < 0.8
    live[0] = True
    counts = [40, 17, 5, 0]
    context = context_of(seen, counts, live)
    context.layout = TokenLayout.build(context.layout.visual, image_sizes=CLIPS * 4)
    for b, kept in enumerate(chosen(method, context)):
        left = live[b].nonzero()[:, 0].tolist()
        assert kept == sorted(OF_CLIPS[method](seen[b].states, left, counts[b])), b


def test_the_first_frame_of_a_short_clip_leaves_half_of_the_count_to_the_others():
    """Of three frames at 0.3 the first alone would be nearly all that stays."""
    context = context_of([made_up(0, [(6, 6)])], [11])
    context.layout = TokenLayout.build(context.layout.visual, image_sizes=((3, 3, 4),))
    first = {method: sum(place < 12 for place in chosen(method, context)[0]) for method in ("evs", "evs(first=1)")}
    assert first == {"evs": 5, "evs(first=1)": 11}


def test_a_token_counts_as_changed_where_the_one_before_it_has_left_in_the_tower():
    """Two frames that are alike: only what has nothing to be compared with is new."""
    cells, states = torch.ones(1, 10, dtype=torch.bool), torch.eye(4).repeat(2, 1)[None]
    cells[0, 8:] = False
    shown = TokenLayout.build(cells, image_sizes=((2, 2, 2),))
    left = torch.tensor([True, False, True, True, True, True, True, True])
    layout = CutLayout.of(shown, left.long().numpy(), 1)
    entered = torch.cat([states, torch.zeros(1, 2, 4)], dim=1)
    context = ScoringContext(0, layout, layout.is_visual_slot, torch.tensor([1]), entered, None, (1,))
    assert chosen("evs(first=0)", context) == [[4]]


def reads_tower(model):
    """Whether the family of a model knows its vision tower."""
    try:
        family_of(model).check_vision(model)
    except UnsupportedModelError:
        return False
    return True


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("method", [method for method in ALL if "(" not in method or method.startswith("vscan(b")])
def test_every_family_runs_a_method_or_says_why_not(method, name):
    model, pruner = build(name), Pruner(method, Schedule((0.5, 0.5, 0.25, 0.25)), record=True)
    part = picture(4, 4, frames=2) if name == "qwen2_5_vl" else picture()
    x = inputs(name, [(words(2, 1), part, words(3, 2)), (words(1, 4), part, words(5, 2))])
    if pruner.chain.needs_vision and not reads_tower(model):
        with pytest.raises(UnsupportedModelError, match="Use a scorer of embeddings"):
            pruner.apply(model)
        return
    pruner.apply(model)
    try:
        with torch.no_grad():
            assert bool(model(**x).logits.isfinite().all())
        total = int(((x["input_ids"][0] == IMAGE) | (x["input_ids"][0] == VIDEO)).sum())
        kept = torch.stack([mask.sum(-1) for mask in pruner.survivors(model)])
    finally:
        pruner.remove(model)
    most = torch.tensor([int(r * total + 0.5) for r in (0.5, 0.5, 0.25, 0.25)])[:, None]
    assert bool((kept <= most).all() if method.startswith("prumerge") else (kept == most).all())
