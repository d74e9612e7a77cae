"""Code in the README and the docs runs; command lines name commands and options that exist."""

import json
import shlex

import pytest
from PIL import Image

from docs.pages import PAGES, blocks
from vispco.core.registry import preserved


def lay_out(folder):
    """The files that the pages' examples read."""
    turns = [{"from": "human", "value": "<image>\nWhat is it?"}, {"from": "gpt", "value": "A square."}]
    rows = [{"id": str(n), "image": f"{n}.png", "conversations": turns} for n in range(4)]
    (folder / "llava_instruct_150k.json").write_text(json.dumps(rows))
    (folder / "train2017").mkdir()
    for n in range(4):
        Image.new("RGB", (40 + 8 * n, 40), "teal").save(folder / "train2017" / f"{n}.png")


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.stem)
def test_python_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    with preserved():
        for number, block in enumerate(blocks(page, "python")):
            exec(compile(block, f"{page.name}, block {number + 1}", "exec"), names)  # noqa: S102
    if page.name == "README.md":
        said, sample = capsys.readouterr().out.splitlines(), names["sample"]
        assert said == [f"{sample.question} ['{sample.answer}']"]


def lines(page):
    """Every `vispco ...` of a page's shell blocks, without comments; a backslash goes on."""
    for block in blocks(page, "(?:sh|bash|console)"):
        for line in block.replace("\\\n", " ").replace("&&", "\n").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if "vispco" in words[:3] and words[0] != "lmms-eval":
                yield words[words.index("vispco") + 1 :]


@pytest.mark.parametrize("page", [p for p in PAGES if [*lines(p)]], ids=lambda p: p.stem)
def test_command_lines_name_what_there_is(page):
    import typer

    from vispco.cli.main import app

    for words in lines(page):
        command, rest = typer.main.get_command(app), list(words)
        while hasattr(command, "commands"):
            while rest and rest[0].startswith("-"):
                rest.pop(0)
            if not rest:
                break
            assert rest[0] in command.commands, f"{page.name}: there is no `vispco {' '.join(words)}`"
            command = command.commands[rest.pop(0)]
        options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
        unknown = [word.partition("=")[0] for word in rest if word.startswith("--")]
        unknown = [word for word in unknown if word not in options]
        assert not unknown, f"{page.name}: `vispco {' '.join(words)}` has no {', '.join(unknown)}"


@pytest.mark.parametrize("words", [["info", "tiny-qwen"], ["zoo", "list"], ["search", "--help"]], ids=" ".join)
def test_cheap_commands_of_the_readme_run(words):
    from typer.testing import CliRunner

    from vispco.cli.main import app

    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
