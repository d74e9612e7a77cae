"""Uses that people meet: threads, compiled models, adapters, embeddings, decoding methods, training, copies."""

from __future__ import annotations

import copy
import gc
import io
import threading
import weakref

import pytest
import torch
from torch import nn
from transformers import LlavaForConditionalGeneration

from tiny import DEFAULT, FIRST_CLASS, IMAGE, _built, build, inputs, picture, words
from vispco import Pruner, Schedule
from vispco.core.errors import PrunerStateError, UnsupportedModelError
from vispco.engine import visual_at

SCHEDULE = Schedule((1.0, 0.5, 0.5, 0.25))
PRUNER = Pruner("fastv", SCHEDULE)


def generated(model, x, new=4, **options):
    return model.generate(**x, max_new_tokens=new, do_sample=False, **options)


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_one_pruned_model_serves_eight_threads(family):
    """8 threads x 25 generations with different pictures: each equals the single-threaded one."""
    model = build(family)
    prompts = [inputs(family, [(words(2, n), picture(2 + n % 3, 4), words(3 + n, n))], seed=n) for n in range(8)]
    found: dict[tuple[int, int], bool] = {}
    with PRUNER(model):
        expected = [generated(model, x, 2) for x in prompts]

        def work(thread):
            for turn in range(25):
                n = (thread + turn) % len(prompts)
                found[thread, turn] = torch.equal(generated(model, prompts[n], 2), expected[n])

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(found.values()) == 200


@pytest.fixture
def shallow():
    """Two layers, so that it compiles in seconds."""
    config = copy.deepcopy(_built("llava", 0).config)
    config.text_config.num_hidden_layers, config.vision_config.num_hidden_layers = 2, 1
    config.vision_feature_layer = -1
    torch._dynamo.reset()
    yield LlavaForConditionalGeneration(config).eval()
    torch._dynamo.reset()


def test_a_model_compiled_and_run_before_is_pruned(shallow):
    """Whether the pruner is put on what torch.compile made, on the model inside, or on a model compiled in place."""
    x, pruner = inputs("llava", [DEFAULT]), Pruner("random", Schedule((0.5, 0.25)))
    with torch.no_grad():
        with pruner(shallow):
            want = shallow(**x).logits
        compiled = torch.compile(shallow, backend="eager")
        whole = compiled(**x).logits
        assert not torch.allclose(whole, want)
        for given in (compiled, shallow):
            with pruner(given):
                assert torch.equal(compiled(**x).logits, want)
        shallow.compile(backend="eager")
        with pruner(shallow):
            assert torch.equal(shallow(**x).logits, want)


def test_wrappers_are_unwrapped():
    model, x = build("qwen2_5_vl"), inputs("qwen2_5_vl", [DEFAULT])
    wrapped = nn.DataParallel(model)
    with torch.no_grad():
        with PRUNER(model):
            want = model(**x).logits
        assert PRUNER.apply(wrapped) is wrapped
        assert torch.equal(wrapped(**x).logits, want)
        assert PRUNER.token_counts(wrapped).tolist() == [[16, 8, 8, 4]]
        PRUNER.remove(wrapped)


@pytest.fixture(params=FIRST_CLASS)
def adapted(request):
    """A model inside of a PeftModel, with LoRA weights that change what it says; and inputs for it."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    config = peft.LoraConfig(target_modules=["q_proj", "v_proj"], r=2, init_lora_weights=False)
    torch.manual_seed(0)
    return peft.get_peft_model(copy.deepcopy(_built(request.param, 0)), config).eval(), inputs(request.param, [DEFAULT])


def test_peft_models_are_pruned(adapted):
    """The pruner on the PeftModel, and on the model inside: the same logits, tokens and counts."""
    model, x = adapted
    with torch.no_grad():
        whole = model(**x).logits
        with model.disable_adapter():
            assert not torch.allclose(model(**x).logits, whole)
        assert PRUNER.apply(model) is model
        got, tokens = model(**x).logits, generated(model, x)
        assert PRUNER.token_counts(model).tolist() == [[16, 8, 8, 4]]
        PRUNER.remove(model)
        assert torch.equal(model(**x).logits, whole)
        inner = model.get_base_model()
        with PRUNER(inner):
            assert torch.equal(inner(**x).logits, got)
            assert torch.equal(generated(inner, x), tokens)
        with Pruner("fastv", SCHEDULE, mode="mask")(model):
            masked = model(**x).logits
    text = x["input_ids"] != IMAGE
    assert not torch.allclose(got[text], whole[text])
    assert (masked - got)[text].abs().max() <= 1e-4


def test_an_adapter_is_trained_under_a_pruner(adapted):
    model, x = adapted
    labels = x["input_ids"].masked_fill(x["input_ids"] == IMAGE, -100)
    with PRUNER(model.train()):
        model(**x, labels=labels).loss.backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.requires_grad and "language_model" in name}
    assert found
    assert all(grad is not None and grad.abs().max() > 0 for grad in found.values())


class TestMergedEmbeddings:
    def merged(self, model, x):
        """What the language model is handed: pictures and text in one."""
        seen = {}

        def hook(_, __, kwargs):
            seen.update(kwargs)

        handle = model.model.language_model.register_forward_pre_hook(hook, with_kwargs=True)
        with torch.no_grad():
            model(**x)
        handle.remove()
        return seen["inputs_embeds"]

    def test_they_are_refused_where_nothing_says_which_tokens_are_visual(self):
        model, x = build("llava"), inputs("llava", [DEFAULT])
        embeds = self.merged(model, x)
        with PRUNER(model), pytest.raises(UnsupportedModelError, match="visual_at"):
            model(inputs_embeds=embeds, attention_mask=x["attention_mask"])

    def test_the_caller_can_say_it(self):
        model, x = build("llava"), inputs("llava", [DEFAULT])
        embeds = self.merged(model, x)
        with torch.no_grad(), PRUNER(model):
            want = model(**x).logits
            with visual_at(x["input_ids"] == IMAGE):
                got = model(inputs_embeds=embeds, attention_mask=x["attention_mask"]).logits
        assert torch.equal(got, want)


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_generation_without_a_cache_gives_the_tokens_that_a_cache_gives(family):
    model, x = build(family), inputs(family, [DEFAULT, (words(2, 3), picture(4, 4), words(9, 4))])
    with PRUNER(model):
        assert torch.equal(generated(model, x, 6, use_cache=False), generated(model, x, 6))


@pytest.mark.parametrize("mode", ["drop", "mask"])
def test_gradient_checkpointing_is_refused_before_any_layer_runs(mode):
    model, x = copy.deepcopy(_built("llava", 0)).train(), inputs("llava", [DEFAULT])
    model.gradient_checkpointing_enable()
    with Pruner("fastv", SCHEDULE, mode=mode)(model):
        with pytest.raises(UnsupportedModelError, match="gradient_checkpointing_disable"):
            model(**x)
        model.gradient_checkpointing_disable()
        model(**x, labels=x["input_ids"].masked_fill(x["input_ids"] == IMAGE, -100)).loss.backward()


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_labels_on_all_text_choose_as_if_the_text_were_not_there_yet(family):
    """The usual labels of fine-tuning. What follows the picture is to be written, so it cannot choose."""
    model = build(family)
    kept = []
    for seed in (2, 3):
        x = inputs(family, [(words(2, 1), picture(), words(5, seed))])
        labels = x["input_ids"].masked_fill(x["input_ids"] == IMAGE, -100)
        pruner = Pruner("fastv", SCHEDULE, record=True)
        with torch.no_grad(), pruner(model):
            assert model(**x, labels=labels).loss.isfinite()
            kept.append(pruner.survivors(model))
    assert all(torch.equal(a, b) for a, b in zip(*kept, strict=True))


@pytest.mark.parametrize("how", [copy.deepcopy, lambda model: torch.save(model, io.BytesIO())])
def test_a_pruned_model_is_not_copied(how):
    model = build("llava")
    with PRUNER(model), pytest.raises(PrunerStateError, match="Remove the pruner first"):
        how(model)
    assert type(copy.deepcopy(model)) is type(model)


@pytest.mark.parametrize("mode", ["drop", "mask"])
def test_a_model_that_is_deleted_with_its_pruner_on_is_freed(mode):
    model = copy.deepcopy(_built("llava", 0))
    with torch.no_grad():
        Pruner("fastv", SCHEDULE, mode=mode).apply(model)
        model(**inputs("llava", [DEFAULT]))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("family", FIRST_CLASS)
class TestSpeculation:
    """Tokens are proposed, and taken back where the model would have written others."""

    def prompt(self, family):
        return inputs(family, [(words(2, 1), picture(), words(12, 2))])

    def test_prompt_lookup_gives_the_tokens_of_greedy_decoding(self, family):
        model, x = build(family), self.prompt(family)
        with PRUNER(model):
            assert torch.equal(generated(model, x, 12, prompt_lookup_num_tokens=3), generated(model, x, 12))

    def test_an_assistant_gives_the_tokens_of_greedy_decoding(self, family):
        model, x = build(family), self.prompt(family)
        assistant = copy.deepcopy(_built(family, 1))
        with PRUNER(model):
            want = generated(model, x, 12)
            assert torch.equal(generated(model, x, 12, assistant_model=assistant), want)


def test_a_block_that_is_left_while_a_batch_generates_says_so():
    model, x = build("llava"), inputs("llava", [DEFAULT, (words(2, 3), picture(4, 4), words(9, 4))])
    with torch.no_grad(), PRUNER(model):
        out = model(**x, use_cache=True)
    longer = torch.cat([x["attention_mask"], torch.ones(2, 1, dtype=torch.long)], dim=1)
    with torch.no_grad(), pytest.raises(PrunerStateError, match="no longer on the model"):
        model(input_ids=torch.full((2, 1), 9), attention_mask=longer, past_key_values=out.past_key_values)


class TestWhatAModelKeepsOnItself:
    """Qwen's classes keep the offset of their positions on the model from one pass of a generation to the next."""

    def test_a_loop_of_ones_own_goes_on_where_its_thread_was(self):
        """Prompt, then one token, by calls of the model; between the two another thread reads another prompt."""
        model = build("qwen2_5_vl")
        mine, other = (inputs("qwen2_5_vl", [(words(2, 1), picture(*size), words(3, 2))]) for size in ((4, 4), (2, 4)))
        token = torch.tensor([[9]])

        def step(between):
            cache = model(**mine, use_cache=True).past_key_values
            between()
            return model(input_ids=token, past_key_values=cache, use_cache=True).logits

        def elsewhere():
            thread = threading.Thread(target=lambda: model(**other, use_cache=True))
            thread.start()
            thread.join()

        with torch.no_grad(), PRUNER(model):
            alone = step(lambda: None)
            assert torch.equal(step(elsewhere), alone)

    def test_it_is_kept_by_thread_while_a_pruner_is_on(self):
        gc.collect()  # models of other tests that were freed with their pruner on
        model, x = build("qwen2_5_vl"), inputs("qwen2_5_vl", [DEFAULT])
        kind, other = type(model.model), build("qwen2_5_vl", seed=1).model
        with PRUNER(model):
            generated(model, x, 1)
            mine, seen = model.model.rope_deltas, []

            def work():
                seen.append(model.model.rope_deltas)  # nothing of its own yet: the last that there is
                model.model.rope_deltas = torch.full_like(mine, 7)
                seen.append(model.model.rope_deltas)

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            assert torch.equal(seen[0], mine)
            assert int(seen[1]) == 7
            assert model.model.rope_deltas is mine
            other.rope_deltas = mine + 1  # a model of the class without a pruner is as ever
            assert torch.equal(other.rope_deltas, mine + 1)
        assert "rope_deltas" not in vars(kind)
        assert int(model.model.rope_deltas) == 7
        assert not [name for name in vars(model.model) if name.endswith("by_thread")]

    def test_two_pruned_models_of_a_class_leave_it_as_it_was(self):
        gc.collect()  # models of other tests that were freed with their pruner on
        first, second = build("qwen2_5_vl"), build("qwen2_5_vl", seed=1)
        PRUNER.apply(first)
        PRUNER.apply(second)
        PRUNER.remove(first)
        assert "rope_deltas" in vars(type(second.model))
        PRUNER.remove(second)
        assert "rope_deltas" not in vars(type(second.model))
