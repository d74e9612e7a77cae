"""A misspelt name of any kind: the sentence names the nearest, before a model is loaded."""

import pytest

from vispco.cli.names import OTHER_KINDS, REGISTRIES, names

WORDS = {
    "search tiny-qwn": "tiny-qwen",
    "sweep tiny-llva": "tiny-llava",
    "evaluate tiny-gema": "tiny-gemma",
    "ask tiny-qwn photo.png what": "tiny-qwen",
    "play tiny-qwn": "tiny-qwen",
    "serve tiny-qwn": "tiny-qwen",
    "bench tiny-qwn": "tiny-qwen",
    "profile tiny-qwn": "tiny-qwen",
    "train madtp tiny-qwn": "tiny-qwen",
    "demo --model tiny-qwn": "tiny-qwen",
    "compare searches tiny-qwn": "tiny-qwen",
    "compare methods tiny-qwn": "tiny-qwen",
    "info tiny-qwn": "tiny-qwen",
    "zoo train tiny-qwn": "tiny-qwen",
    "search tiny-qwen --mode jiont": "joint",
    "demo --mode statik": "static",
    "search tiny-qwen --solver projecton": "projection",
    "search tiny-qwen --kernel stepz": "steps",
    "demo --kernel stepz": "steps",
    "search tiny-qwen --scorer fastw": "fastv",
    "search tiny-qwen --scorers fastv,divprun+fastv": "divprune",
    "sweep tiny-qwen --scorer divprune@0+fastw@3": "fastv",
    "evaluate tiny-qwen --scorer fastw": "fastv",
    "bench tiny-qwen --scorer fastw": "fastv",
    "check tiny-qwen --scorer fastw": "fastv",
    "profile tiny-qwen --scorer fastw": "fastv",
    "search tiny-qwen --cost exakt": "exact",
    "compare searches tiny-qwen --cost papr": "paper",
    "sweep tiny-qwen --strategy gird": "grid",
    "sweep tiny-qwen --space stagez": "stages",
    "sweep tiny-qwen --space kernel:stepz": "steps",
    "evaluate tiny-qwen --split tets": "test",
    "evaluate tiny-qwen --tasks countng": "counting",
    "evaluate tiny-qwen --method pyramidrop": "pyramiddrop",
    "ask tiny-qwen photo.png what --method sparsvlm": "sparsevlm",
    "bench tiny-qwen --method pyramidrop@0.5": "pyramiddrop",
    "compare methods tiny-qwen --methods fastv,pyramidrop": "pyramiddrop",
    "compare methods tiny-qwen --search vispco-halvng": "vispco-halving",
    "compare searches tiny-qwen --searches tpe-jont": "tpe-joint",
    "compare searches tiny-qwen --measure acuracy": "accuracy",
    "train madpt tiny-qwen": "madtp",
    "evaluate tiny-qwen --protocol vlmevalkt": "vlmevalkit",
    "evaluate tiny-qwen --allocation equl": "equal",
    "evaluate tiny-qwen --dtype bfloat61": "bfloat16",
    "evaluate tiny-qwen --attn-implementation sdap": "sdpa",
    "evaluate tiny-qwen --device cud": "cuda",
    "evaluate tiny-qwen --tasks mmbnch=file.tsv": "mmbench",
    "evaluate tiny-qwen --tasks mme={tsv} --metrics mme=yesno": "yes-no",
    "evaluate tiny-qwen --method sparsevlm:912": "192",
    "search tiny-qwen --preset qwn": "qwen",
    "search tiny-qwen --set lamm=1": "lam",
    "search tiny-qwen --set joint.shaps=3": "shapes",
    "plot {run} --format pngg": ".png",
    "serve tiny-qwen --log-level waring": "warning",
    "check qwen3_vll": "qwen3_vl",
    "evaluate tiny-qwen --config {config}": "scorer",
    "serach tiny-qwen": "search",
    "compare serches tiny-qwen": "searches",
}


@pytest.mark.parametrize("words", WORDS)
def test_wrong_names_are_refused_before_a_model_is_loaded(words, invoke, run, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "transformers.AutoModelForImageTextToText.from_pretrained", lambda *_, **__: pytest.fail("a model was loaded")
    )
    tsv, config = tmp_path / "MME.tsv", tmp_path / "options.yaml"
    tsv.write_text("index\timage\tquestion\tanswer\n")
    config.write_text("scorr: fastv\n")
    done = invoke(*words.format(tsv=tsv, run=run, config=config).split())
    assert done.code in (1, 2)
    assert f"Did you mean '{WORDS[words]}'?" in done.err


@pytest.mark.parametrize("kind", [*REGISTRIES, *OTHER_KINDS])
def test_every_kind_of_name_has_its_registry(kind):
    assert len(names(kind)) > 1
