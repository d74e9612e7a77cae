"""One row a scorer: what it is called, what it must see, where its tokens leave, and what its options are."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from vispco import scorers
from vispco.core.errors import InvalidInputError
from vispco.scorers.sparsevlm import cluster

TABLE = [
    # name, options, reads attention, reads hidden states, site, rows of (10 text, 100 visual) tokens
    ("fastv", {}, True, False, "entry", 1),
    ("sparsevlm", {"recycle": False}, True, False, "entry", 10),
    ("sparsevlm", {"recycle": True}, True, True, "entry", 10),
    ("fitprune", {"site": "mid"}, True, False, "mid", 110),
    ("fitprune", {"site": "entry"}, True, False, "entry", 110),
    ("random", {"seed": 3}, False, False, "entry", 0),
    ("atp-llava", {"weights": "runs/atp"}, True, False, "entry", 110),
    ("dynamic-llava", {"weights": None}, False, True, "entry", 0),
    ("madtp", {"weights": "tiny-qwen"}, True, True, "entry", 101),
    ("v2drop", {}, False, True, "entry", 0),
    ("sparsevlm", {"recycle": False, "rank": 9.0, "bias": 6.0, "layers": [3]}, True, False, "entry", 20),
    ("ipcv", {}, False, True, "entry", 0),
    ("vtw", {}, False, False, "entry", 0),
    ("pyramiddrop", {}, False, False, "entry", 1),
    ("vscan-inside", {}, False, False, "entry", 1),
    ("himap", {"rows": "text"}, True, False, "entry", 10),
    ("himap", {"rows": "visual"}, True, False, "entry", 100),
    ("priortr", {"rows": "last"}, True, False, "entry", 2),
    ("priortr", {"rows": "text"}, True, False, "entry", 11),
    ("dart", {"visual_pivots": 4, "text_pivots": 4}, True, True, "entry", 0),
    ("knorm", {}, True, False, "entry", 0),
    ("aim", {"steps": 5, "temperature": 0.1}, True, False, "entry", 0),
    ("btp", {"balance": 0.5}, True, True, "entry", 10),
    ("topv", {"iterations": 3, "smoothing": 0.1, "recovery": 0.1}, False, True, "entry", 0),
    ("uniform", {}, False, False, "entry", 0),
    ("lrcp", {"rank": 3}, False, False, "entry", 0),
    ("evs", {"first": 0.25}, False, False, "entry", 0),
    ("vidcom2", {}, False, False, "entry", 0),
    ("divprune", {}, False, False, "entry", 0),
    ("pixelprune", {"tolerance": 0.01}, False, False, "entry", 0),
    ("visionzip", {"contextual": 0.2, "merge": False}, False, False, "entry", 0),
    ("prumerge", {"adaptive": True, "merge": False}, False, False, "entry", 0),
    ("vispruner", {"important_ratio": 0.4}, False, False, "entry", 0),
    ("scope", {"alpha": 2.0}, False, False, "entry", 0),
    ("hiprune", {"alpha": 0.2, "block": 3}, False, False, "entry", 0),
    ("vscan", {"merge": False, "block": 0.5}, False, False, "entry", 0),
    ("vscan", {"merge": True, "block": 7}, False, True, "entry", 0),
    ("aim-merge", {}, False, True, "entry", 0),
    ("aim-merge", {"by_size": True, "by_keys": True}, False, True, "entry", 0),
    ("cdpruner", {"variant": "openvino", "relevance_weight": 0.3, "split": True}, False, False, "entry", 0),
]


@pytest.mark.parametrize(("name", "options", "attention", "hidden", "site", "rows"), TABLE)
def test_a_scorer_is_what_it_declares(name, options, attention, hidden, site, rows):
    scorer = scorers.get(name, **options)
    assert (scorer.needs_attention, scorer.needs_hidden, scorer.site) == (attention, hidden, site)
    assert scorer.attention_rows(10, 100) == rows
    assert scorer.to_dict() == {"name": name, **options}
    again = scorers.get(**scorer.to_dict())
    assert type(again) is type(scorer)
    assert again.to_dict() == scorer.to_dict()


def test_every_scorer_is_in_the_table():
    assert {row[0] for row in TABLE} == set(scorers.SCORERS)


def test_a_scorer_is_imported_when_it_is_asked_for_and_none_before():
    code = (
        "import sys, vispco.scorers as s\n"
        "assert 'fastv' in s.SCORERS and len(s.SCORERS) > 20 and 'transformers' not in sys.modules\n"
        "assert 'vispco.scorers.layer_ratings' not in sys.modules\n"
        "assert s.get('fastv').name == 'fastv' and 'vispco.scorers.divprune' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_is_registered_once():
    with pytest.raises(InvalidInputError, match="registered already"):
        scorers.register(scorers.SCORERS.get("fastv"))
    with pytest.raises(InvalidInputError, match="registered already"):
        scorers.register(type("Other", (scorers.Scorer,), {"name": "topv"}))


def test_a_scorer_that_reads_attention_without_declaring_it_is_told_so():
    class Sneaky(scorers.Scorer):
        name = "sneaky"
        needs_attention = False

        def score(self, context):
            return context.attention("last")

    from tiny import DEFAULT, build, inputs
    from vispco import Pruner, Schedule

    model, pruner = build("llava"), Pruner(Sneaky(), Schedule.single(1, 0.5, 4))
    with pruner(model), pytest.raises(InvalidInputError, match="needs_attention = True"):
        model(**inputs("llava", [DEFAULT]))


def test_a_new_scorer_takes_few_lines_and_works_at_once():
    class Norm(scorers.Scorer):
        """Tokens with a large state are kept."""

        name = "norm"
        needs_attention = False
        needs_hidden = True

        def score(self, context):
            return context.hidden.norm(dim=-1)

    from tiny import DEFAULT, build, inputs
    from vispco import Pruner, Schedule

    pruner = Pruner(Norm(), Schedule.single(0, 0.25, 4), record=True)
    model, x = build("llava"), inputs("llava", [DEFAULT])
    with torch.no_grad(), pruner(model):
        model(**x)
        kept = pruner.survivors(model)[0][0]
        features = model.model.get_image_features(x["pixel_values"]).pooler_output[0]
    assert set(kept.nonzero()[:, 0].tolist()) == set(features.norm(dim=-1).topk(4).indices.tolist())


def test_groups_form_around_their_centres():
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    states = torch.cat([c + 0.1 * torch.randn(5, 2, generator=generator) for c in centres])[None]
    pool = torch.ones(1, 15, dtype=torch.bool)
    is_centre, into = cluster(states, pool, torch.tensor([3]))
    assert is_centre.sum() == 3
    groups = into[0].view(3, 5)
    assert all(len(set(group.tolist())) == 1 for group in groups)
    assert len(set(groups[:, 0].tolist())) == 3


def test_tokens_outside_the_pool_join_nobody():
    pool = torch.tensor([[True, True, False]])
    is_centre, into = cluster(torch.randn(1, 3, 4), pool, torch.tensor([1]))
    assert into[0, 2] == -1
    assert not is_centre[0, 2]
    _, none = cluster(torch.randn(1, 3, 4), pool, torch.tensor([0]))
    assert none.tolist() == [[-1, -1, -1]]
