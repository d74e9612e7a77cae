"""The endpoint, driven by the official openai package: every answer is the one of an evaluation."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import vispco
from serving.server.conftest import Server, messages
from vispco.cost import Dimensions, TimeProfile
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.pruner.measured_planner import device_name
from vispco.pruner.pruner_spec import PrunerSpec

CLIENTS = 8
EACH = int(os.environ.get("VISPCO_SERVE_REQUESTS", "6"))
BUDGETS = (None, 0.3, 1.0)


def ask(client, sample, budget=None, **more):
    extra = {} if budget is None else {"extra_body": {"budget": budget}}
    return client.chat.completions.create(
        model="tiny-qwen", messages=messages(sample), temperature=0, max_tokens=8, **extra, **more
    )


@pytest.fixture(scope="module")
def expected(samples):
    """(budget, sample) -> the answer, from one thread and without a server."""
    model, processor = vispco.load("tiny-qwen")
    found = {}
    for budget in BUDGETS:
        pruner = PrunerSpec.usual("tiny-qwen", budget or 0.5).resolve(model)
        judge = TaskEvaluator(model, processor, samples, "fastv", max_new_tokens=8, details=True, batch_size=1)
        told = judge(pruner).details["predictions"]
        found |= {(budget, sample.id): told[sample.id] for sample in samples}
    return found


def test_concurrent_clients_lose_no_answer_and_get_no_other(server, samples, expected):
    def run(number):
        client = server.client()
        asked = []
        for turn in range(EACH):
            sample = samples[(number * 3 + turn) % len(samples)]
            budget = BUDGETS[(number + turn) % len(BUDGETS)]
            asked.append(((budget, sample.id), ask(client, sample, budget).choices[0].message.content.strip()))
        return asked

    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = [answer for told in clients.map(run, range(CLIENTS)) for answer in told]
    assert len(answers) == CLIENTS * EACH
    assert [answer for answer in answers if answer[1] != expected[answer[0]]] == []


def test_a_stream_gives_the_same_answer_and_its_usage_at_the_end(server, samples, expected):
    chunks = list(ask(server.client(), samples[0], stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.strip() == expected[None, samples[0].id]
    assert chunks[-1].usage.pruning["flops_fraction"] <= 0.5


@pytest.mark.parametrize("budget", [0.4, 0.7])
def test_usage_says_what_was_kept_and_what_it_cost(server, samples, budget):
    usage = ask(server.client(), max(samples, key=lambda s: s.area), budget).usage
    assert usage.pruning["budget"] == budget
    assert usage.pruning["flops_fraction"] <= budget
    assert 0 < usage.pruning["visual_tokens_kept"] < usage.pruning["visual_tokens"] < usage.prompt_tokens
    assert usage.pruning["milliseconds"] >= usage.pruning["first_token_ms"] > 0


def test_words_alone_and_earlier_turns_are_answered(server, samples):
    client = server.client()
    alone = client.chat.completions.create(
        model="tiny-qwen", messages=[{"role": "user", "content": "what color?"}], temperature=0, max_tokens=4
    )
    assert alone.usage.pruning["visual_tokens"] == 0
    assert alone.usage.pruning["flops_fraction"] == 1.0
    turns = [*messages(samples[0]), {"role": "assistant", "content": "red"}, *messages(samples[1])]
    again = client.chat.completions.create(model="tiny-qwen", messages=turns, temperature=0, max_completion_tokens=4)
    assert again.usage.completion_tokens <= 4


def test_the_model_is_listed_and_metrics_are_counted(server, samples):
    client = server.client()
    assert [model.id for model in client.models.list()] == ["tiny-qwen"]
    before = server.metric("completion_tokens_total")
    usage = ask(client, samples[0]).usage
    assert server.metric("completion_tokens_total") - before == usage.completion_tokens
    assert server.metric("flops_total") < server.metric("flops_unpruned_total")
    assert server.metric("requests_waiting") == 0


def test_a_mean_budget_tells_its_target_and_how_far_it_is():
    from vispco.pruner.mean_budget import MeanController
    from vispco.serving.server.metrics import ServerMetrics, controller_gauges

    parser = pytest.importorskip("prometheus_client.parser")
    controller = MeanController(0.2)
    assert "vispco_budget_mean_running" not in ServerMetrics().text(controller_gauges(controller))
    controller.settle(np.array([0.2, 0.2]), np.array([0.2, 0.3]))
    page = ServerMetrics().text(controller_gauges(controller))
    told = {each.name: each.samples[0].value for each in parser.text_string_to_metric_families(page) if each.samples}
    assert told["vispco_budget_mean_target"] == 0.2
    assert told["vispco_budget_mean_running"] == pytest.approx(0.25)
    assert told["vispco_budget_debt"] == pytest.approx(0.5)
    assert "vispco_budget" not in ServerMetrics().text()


def test_metrics_are_read_by_prometheus(server):
    parser = pytest.importorskip("prometheus_client.parser")
    families = {family.name for family in parser.text_string_to_metric_families(server.get("/metrics"))}
    assert {"vispco_requests", "vispco_flops", "vispco_request_seconds", "vispco_requests_waiting"} <= families


def test_a_request_may_give_percent_or_milliseconds(samples, tmp_path, monkeypatch):
    model, _ = vispco.load("tiny-qwen")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    TimeProfile(
        dimensions=Dimensions.from_config(model.config), device=device_name(model.device), dtype="float32",
        batches=(1, 2), tokens=(1, 1000), layer_ms=((0.01, 10.0), (0.02, 20.0)), fixed_ms=(0.1, 0.1), drop_ms=(0.01, 0.01),
        tower_ms=(0.0, 0.0),
    ).save()  # fmt: skip
    sample = max(samples, key=lambda s: s.area)
    timed = Server("--method", "fastv", "--budget", "6ms")
    try:
        spent = {budget: ask(timed.client(), sample, budget).usage.pruning for budget in (None, "6ms", "30%")}
        with pytest.raises(Exception, match=r"(one|every) prompt"):
            ask(timed.client(), sample, "mean:0.2,max:0.5")
    finally:
        timed.process.terminate()
        timed.process.wait(20)
    assert spent[None]["budget"] == spent["6ms"]["budget"] == "6ms"
    assert spent[None]["flops"] == spent["6ms"]["flops"]
    assert spent["30%"]["budget"] == 0.3
    assert spent["30%"]["flops_fraction"] <= 0.3
