"""A plain install, without the extras, is enough to prune, ask and serve; what needs an extra says which."""

import subprocess
import sys

import pytest

from vispco.compare import searches as rivals
from vispco.core.errors import MissingExtraError

EXTRAS = ("optuna", "scipy", "sqlalchemy", "matplotlib", "gradio", "datasets", "openai", "fastapi", "uvicorn")
BLOCKED = f"import sys\nfor name in {EXTRAS}:\n    sys.modules[name] = None\n"
COMMAND = "from vispco.cli.main import run\nsys.argv = ['vispco', *{words}]\nrun()"


def python(program, folder):
    """Run a program where the extras cannot be imported."""
    command = [sys.executable, "-c", BLOCKED + program]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def vispco(folder, *words):
    return python(COMMAND.format(words=words), folder)


def test_a_model_is_loaded_pruned_and_generates(tmp_path):
    done = python(
        """
import vispco
from vispco.data import dataset

model, processor = vispco.load("tiny-qwen")
sample = dataset("test", limit=1)[0]
question = [{"type": "image"}, {"type": "text", "text": sample.question}]
prompt = processor.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True)
inputs = processor(text=[prompt], images=[sample.image], return_tensors="pt")
pruner = vispco.Pruner("fastv", vispco.Schedule.single(layer=4, keep=0.25, num_layers=10))
with pruner(model):
    output = model.generate(**inputs, max_new_tokens=4)
print(output.shape[1] > inputs["input_ids"].shape[1])
sample.image.save("photo.png")
import vispco.search, vispco.report, vispco.compare.methods, vispco.compare.searches, vispco.timing.profiling
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "True"
    asked = vispco(tmp_path, "ask", "tiny-qwen", "photo.png", "how many rings are there?", "--rounds", "1")
    assert asked.returncode == 0, asked.stderr
    assert "unpruned" in asked.stdout
    assert (tmp_path / "photo-survivors.png").stat().st_size


@pytest.mark.parametrize("name", ["tpe-joint", "vflowopt", "p-sigmoid-bo"])
def test_a_search_that_needs_optuna_is_refused_when_it_is_chosen(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"needs Optuna\. .*pip install '\.\[search\]'"):
        rivals.get(name)


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("sweep", "tiny-qwen", "--trials", "2", "--out", "swept"), "search"),
        (("demo", "--out", "shown"), "search"),
        (("compare", "searches", "tiny-qwen", "--out", "compared"), "plots"),
        (("play",), "play"),
        (("serve", "tiny-qwen"), "serve"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else given,
)
def test_a_command_that_needs_an_extra_says_which_before_it_works(words, extra, tmp_path):
    done = vispco(tmp_path, *words)
    assert done.returncode == 1
    assert f"pip install '.[{extra}]'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert [*tmp_path.iterdir()] == []
