import pytest
from PIL import Image

from cli.invoking import Invoke
from report.browser import chromium, missing, show


@pytest.fixture
def invoke(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return Invoke(monkeypatch, capsys)


def test_ask_answers_twice_and_draws_the_survivors_in_this_folder(invoke, picture, tmp_path):
    done = invoke("ask", "tiny-qwen", picture, "how many things are there?", "--budget", 0.5, "--rounds", 1)
    assert done.code == 0
    assert "unpruned" in done.out
    assert "GFLOPs" in done.out
    with Image.open(tmp_path / "photo-survivors.png") as drawn:
        assert drawn.width > 200


def test_json_holds_both_replies(invoke, picture):
    done = invoke("ask", "tiny-qwen", picture, "what is this?", "--budget", 0.4, "--rounds", 1, "--json")
    assert done.json["pruned"]["fraction"] <= 0.4
    assert done.json["unpruned"]["milliseconds"] > 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--budget", "2"], "above 0, up to 1"),
        (["--out", "survivors.html"], "survivors.html was given, and what is written is a .png file"),
        (["--method", "nothing"], "Known methods"),
        (["--pruner", "runs/none/at/all"], "does not exist"),
        (["--pruner", "x", "--method", "fastv"], "Keep one of them"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(invoke, picture, options, told):
    done = invoke("ask", "tiny-qwen", picture, "what is this?", *options)
    assert done.code == 1
    assert told in done.err


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_the_page_moves_through_the_layers(invoke, picture, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    invoke("ask", "tiny-qwen", picture, "is <b> safe?", "--budget", 0.6, "--rounds", 1, "--open")
    page = tmp_path / "photo-survivors.html"
    assert opened == [page.resolve().as_uri()]
    with chromium() as driver:
        from selenium.webdriver.common.keys import Keys

        show(driver, page, 390, 800)
        told = driver.find_element("id", "caption")
        last = told.text
        driver.find_element("id", "layer").send_keys(Keys.HOME)
        assert told.text != last
        assert told.text.startswith("layer 0")
        assert driver.find_element("tag name", "h1").text == "is <b> safe?"
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        assert wide <= 390
