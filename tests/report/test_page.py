"""The page in a real browser: it shows the payload's numbers, moves as one, and asks nobody for anything."""

import base64
import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from report import browser
from vispco.report import build, write
from vispco.report.payload import ChainRow

pytestmark = pytest.mark.skipif(browser.missing() is not None, reason=browser.missing() or "")
SEARCH_RUN = Path(__file__).parents[1] / "pruner" / "search_runs" / "predictor"
THIN = "\u202f"


@pytest.fixture(scope="module")
def payload(run, other):
    return build([run, other])


@pytest.fixture(scope="module")
def page(payload, tmp_path_factory):
    return write(payload, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def driver():
    with browser.chromium() as driver:
        yield driver


@pytest.fixture
def desktop(driver, page):
    """The page, as the last test left it; opened again where that test looked at another one."""
    if not driver.current_url.startswith(page.as_uri()):
        browser.complaints(driver), browser.requests(driver)  # what the browser's own first page did
        browser.show(driver, page)
        wait(
            driver,
            "return document.documentElement.dataset.ready === 'true' && !!document.querySelector('#frontier svg')",
        )
    return driver


def wait(driver, script: str, seconds: float = 20.0):
    end = time.monotonic() + seconds
    while not (found := driver.execute_script(script)):
        assert time.monotonic() < end, f"never true: {script}"
        time.sleep(0.05)
    return found


def text(driver, name: str) -> str:
    return driver.execute_script("return document.getElementById(arguments[0]).textContent", name)


def slide(driver, name: str, value: int) -> None:
    driver.execute_script(
        "const i = document.getElementById(arguments[0]); i.value = arguments[1];"
        "i.dispatchEvent(new Event('input', {bubbles: true}))",
        name,
        value,
    )


def percent(value: float) -> str:
    return f"{value * 100:.1f}{THIN}%"


def depth_of(payload, example: int, stop: int) -> bytes:
    budget = payload.budgets[stop].budget
    states = payload.examples[example].states
    state = [s for s in states if s.budget <= budget + 1e-9][-1:] or states[:1]
    return base64.b64decode(state[0].depth)


def test_the_slider_moves_every_number_to_the_payload_s(desktop, payload):
    for stop in (3, 8, 16):
        slide(desktop, "budget", stop)
        point = payload.runs[0].points[payload.budgets[stop].choices[0]]
        assert text(desktop, "budget-value") == f"{payload.budgets[stop].budget * 100:.0f}{THIN}%"
        assert text(desktop, "expected-accuracy") == percent(point.accuracy)
        assert text(desktop, "expected-cost") == percent(point.fraction)
        assert text(desktop, "expected-kept") == percent(sum(point.retention) / len(point.retention))
        bars = desktop.execute_script(
            "return [...document.querySelectorAll('#schedule .column title')].map((t) => t.textContent)"
        )
        assert bars == [f"layer {i}: {percent(r)}" for i, r in enumerate(point.retention)]
        assert desktop.execute_script("return document.querySelector('#frontier .ring-text').textContent") == percent(
            point.accuracy
        )


@pytest.mark.parametrize(("width", "blocks"), [(1280, 5), (400, 5), (1280, 0)])
def test_who_chooses_stands_under_the_columns_of_the_curve(driver, payload, tmp_path, width, blocks):
    def with_chains(point):
        chain = ChainRow(
            "divprune@tower.1+fastv", 1.0, ("fastv",) * len(point.retention), ("", *["divprune"] * 4)[:blocks]
        )
        return replace(point, chains=(chain,), tower=(1.0, *[0.9] * 4)[:blocks])

    runs = tuple(replace(run, points=tuple(map(with_chains, run.points))) for run in payload.runs)
    browser.show(driver, write(replace(payload, runs=runs), tmp_path / "report.html"), width)
    wait(driver, "return document.querySelectorAll('.chain-cell').length > 0")
    slide(driver, "budget", 8)
    middles = "(each) => { const box = each.getBoundingClientRect(); return (box.left + box.right) / 2; }"
    cells, bars = (
        driver.execute_script(f"return [...document.querySelectorAll('{name}')].map({middles})")
        for name in (".chain-cell", "#schedule .column .bar")
    )
    assert len(cells) == len(bars) == blocks + len(payload.runs[0].points[0].retention)
    assert cells == pytest.approx(bars, abs=1.0)


def test_a_budget_that_nothing_meets_says_so(desktop, payload):
    assert payload.budgets[0].choices[0] is None
    slide(desktop, "budget", 0)
    assert text(desktop, "expected-accuracy") == "–"
    assert "no schedule" in text(desktop, "schedule-note")
    assert desktop.execute_script("return document.getElementById('copy-json').disabled")


def test_slider_and_scrubber_choose_the_tokens_that_are_shown(desktop, payload):
    first = payload.summary.example  # that the page begins with
    example = payload.examples[first]
    for stop, layer in ((8, 0), (8, 7), (4, 11)):
        slide(desktop, "budget", stop)
        slide(desktop, "layer", layer)
        kept = sum(value > layer for value in depth_of(payload, first, stop))
        assert text(desktop, "kept") == f"{kept} of {example.rows * example.columns} tokens"
        assert text(desktop, "layer-value") == f"{layer} ({layer + 1} of {example.layers})"


def test_veiled_pixels_are_those_of_dropped_tokens(desktop, payload):
    slide(desktop, "budget", 8)
    slide(desktop, "layer", 7)
    first = payload.summary.example
    example, depth = payload.examples[first], depth_of(payload, first, 8)
    paint = """
        const done = arguments[arguments.length - 1], [rows, columns] = arguments;
        setTimeout(() => {
          const c = document.getElementById('picture'), found = [];
          const all = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
          for (let r = 0; r < rows; r++) for (let k = 0; k < columns; k++) {
            const [x, y] = [Math.floor((k + .5) * c.width / columns), Math.floor((r + .5) * c.height / rows)];
            found.push([...all.slice(4 * (y * c.width + x), 4 * (y * c.width + x) + 3)]);
          }
          done(found);
        }, 300)"""
    pixels = desktop.execute_async_script(paint, example.rows, example.columns)
    for value, pixel in zip(depth, pixels, strict=True):
        if value <= 7:  # the veil is 86 % of the paper's colour
            assert min(pixel) >= 0.86 * 246 - 2


def test_another_example_brings_its_question_and_answers(desktop, payload):
    slide(desktop, "budget", 16)
    desktop.execute_script("document.querySelectorAll('#thumbs input')[2].click()")
    example = payload.examples[2]
    assert text(desktop, "question") == example.question
    assert text(desktop, "answer-reference") == example.reference
    assert text(desktop, "answer-unpruned").startswith(example.unpruned)
    assert text(desktop, "answer-pruned").startswith(example.states[-1].answer)


def test_copy_buttons_give_a_schedule_that_works(desktop, payload):
    desktop.execute_script(
        "window.copied = []; Object.defineProperty(navigator, 'clipboard',"
        "{value: {writeText: async (t) => { window.copied.push(t); }}, configurable: true})"
    )
    slide(desktop, "budget", 8)
    point = payload.runs[0].points[payload.budgets[8].choices[0]]
    for name in ("copy-json", "copy-python"):
        desktop.execute_script("document.getElementById(arguments[0]).click()", name)
    as_json, as_python = wait(desktop, "return window.copied.length === 2 && window.copied")
    assert wait(desktop, "return document.getElementById('copied').textContent") == "Python copied."

    from vispco.core.schedule import Schedule
    from vispco.pruner.pruner_spec import PrunerSpec

    copied = PrunerSpec.from_dict(json.loads(as_json))
    assert copied.schedule.retention == point.retention
    assert copied.chain.name == payload.runs[0].scorer
    first, second, third = as_python.splitlines()
    assert first == "import vispco"
    assert third.startswith("with pruner(model):")
    made = {}
    fake = type(
        "vispco", (), {"Pruner": staticmethod(lambda scorer, schedule: (scorer, schedule)), "Schedule": Schedule}
    )
    exec(second, {"vispco": fake}, made)  # noqa: S102 - the line that a user would paste
    scorer, schedule = made["pruner"]
    assert scorer == "fastv"
    assert schedule.retention == pytest.approx(point.retention, abs=2e-6)
    assert schedule.counts([144]).tolist() == Schedule(point.retention).counts([144]).tolist()


def test_axes_legend_and_keyboard_work(desktop, payload):
    for axis in ("flops", "seconds", "fraction"):
        desktop.execute_script("document.querySelector(`#axis input[value=${arguments[0]}]`).click()", axis)
        fronts = "return document.querySelectorAll('#frontier .front').length"
        assert desktop.execute_script(fronts) >= len(payload.runs)
    both = desktop.execute_script("return document.querySelectorAll('#frontier .stairs').length")
    desktop.execute_script("document.querySelectorAll('#legend button')[1].click()")
    assert desktop.execute_script("return document.querySelectorAll('#frontier .stairs').length") == both - 1
    desktop.execute_script("document.querySelectorAll('#legend button')[1].click()")
    desktop.execute_script(
        "const f = document.getElementById('frontier'); f.focus();"
        "f.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}))"
    )
    first = payload.runs[0].points[payload.runs[0].frontier[0]]
    assert percent(first.accuracy) in text(desktop, "frontier-said")
    assert desktop.execute_script("return !document.querySelector('#frontier .tip').hidden")


def test_another_run_brings_its_own_solver_and_the_price_can_be_flops(desktop, payload):
    legend = "return [...document.querySelectorAll('#convergence-legend .key')].map((k) => k.textContent)"
    assert desktop.execute_script(legend) == []  # one training for all budgets
    pick = "const r = document.getElementById('run'); r.value = arguments[0]; r.dispatchEvent(new Event('change'))"
    desktop.execute_script(pick, 2)
    slide(desktop, "budget", 6)
    assert desktop.execute_script(legend) == [f"{b}{THIN}%" for b in (20, 40, 60, 70, 90)]
    strong = "return document.querySelector('#convergence-legend .now').textContent"
    assert desktop.execute_script(strong) == f"40{THIN}%"
    hidden = desktop.execute_script("return [...document.querySelectorAll('#convergence figure')].map((f) => f.hidden)")
    assert hidden == [False, False, True, True]  # its multipliers never moved
    desktop.execute_script(pick, 0)
    for price, ends in (("flops", 2), ("seconds", 3)):
        desktop.execute_script("document.querySelector(`#price input[value=${arguments[0]}]`).click()", price)
        marks = "return document.querySelectorAll('#hypervolume .catch').length"
        assert desktop.execute_script(marks) == ends


def test_every_part_is_there_and_every_control_has_a_name(desktop, payload):
    hidden = desktop.execute_script("return [...document.querySelectorAll('section[hidden]')].map((x) => x.id)")
    assert hidden == ["sec-published"]  # a table of methods comes from another command
    nameless = desktop.execute_script(
        "return [...document.querySelectorAll('button, input, select')].filter((x) => !x.disabled &&"
        "!(x.textContent.trim() || x.getAttribute('aria-label') || (x.labels && x.labels.length))).map((x) => x.outerHTML)"
    )
    assert nameless == []
    shown = desktop.execute_script("return document.querySelector('#methods tbody').textContent")
    assert f"{payload.methods[0].hypervolume:.4f}" in shown


def test_the_theme_can_be_switched(desktop):
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = desktop.execute_script(ground)
    desktop.execute_script("document.getElementById('theme').click()")
    assert desktop.execute_script(ground) != before
    desktop.execute_script("document.getElementById('theme').click()")


def test_a_phone_needs_no_sideways_scrolling(desktop, page):
    for width in (360, 390):
        browser.show(desktop, page, width, 800, dark=True)
        wait(desktop, "return !!document.querySelector('#frontier svg')")
        assert desktop.execute_script("return document.documentElement.scrollWidth") <= width


def test_a_plain_search_leaves_the_rest_out_and_is_deployed_from_its_folder(desktop, other, tmp_path):
    browser.show(desktop, write(other, tmp_path / "small.html"))
    wait(desktop, "return document.documentElement.dataset.ready === 'true'")
    hidden = desktop.execute_script("return [...document.querySelectorAll('section[hidden]')].map((x) => x.id)")
    assert set(hidden) == {"sec-examples", "sec-bench", "sec-comparisons", "sec-published", "sec-areas"}
    point = build([other]).runs[0].points[build([other]).budgets[8].choices[0]]
    assert text(desktop, "python").splitlines()[1] == (
        f'pruner = vispco.Pruner.from_pretrained("{other}", budget={point.budget})'
    )


def test_nothing_was_asked_for_and_nothing_went_wrong(desktop):
    """Last: over everything that the tests above did."""
    assert browser.complaints(desktop) == []
    assert [u for u in browser.requests(desktop) if not u.startswith(("file:", "data:", "chrome:"))] == []


def test_a_mean_is_called_one_and_what_is_copied_is_what_was_evaluated(driver, tmp_path):
    """Of a search's point, no sample ran the curve that is drawn: the run and its budget are copied instead."""
    payload = build([SEARCH_RUN])
    assert [point.samples for point in payload.runs[0].points] == [3, 3]
    browser.show(driver, write(payload, tmp_path / "report.html"))
    wait(driver, "return document.documentElement.dataset.ready === 'true'")
    driver.execute_script(
        "window.copied = []; Object.defineProperty(navigator, 'clipboard',"
        "{value: {writeText: async (t) => { window.copied.push(t); }}, configurable: true})"
    )
    slide(driver, "budget", 8)
    assert "This is the mean of 3; no sample ran it." in text(driver, "schedule-note")
    for name in ("copy-json", "copy-python"):
        driver.execute_script("document.getElementById(arguments[0]).click()", name)
    as_json, as_python = wait(driver, "return window.copied.length === 2 && window.copied")
    assert json.loads(as_json) == {"pruner": str(SEARCH_RUN), "budget": 0.5}
    assert f"from_pretrained({json.dumps(str(SEARCH_RUN))}, budget=0.5)" in as_python


def test_words_are_explained_and_time_has_one_meaning(desktop):
    terms = desktop.execute_script(
        "return [...document.querySelectorAll('.term')].map((n) => [n.firstChild.data, n.title])"
    )
    assert {word for word, _ in terms} >= {"hypervolume", "of empirical", "evaluation"}
    assert all(len(meaning) > 40 for _, meaning in terms)
    heads = desktop.execute_script("return [...document.querySelectorAll('thead th, dt')].map((n) => n.textContent)")
    assert "time" not in heads  # evaluation, search time, or the time to the first token of a batch
    assert text(desktop, "bench-batch") == "Batches of 4."


def test_the_verdict_and_accuracy_by_task_are_shown(desktop):
    assert text(desktop, "verdict").count("The unpruned model reaches") == 1
    cells = desktop.execute_script("return [...document.querySelectorAll('#tasks thead th')].map((n) => n.textContent)")
    assert cells[:3] == ["task", "items", "unpruned"]


def test_no_table_is_clipped(desktop):
    wide = desktop.execute_script(
        "return [...document.querySelectorAll('.scroll')].filter((n) => n.scrollWidth > n.clientWidth + 1).map((n) => n.getAttribute('aria-label'))"
    )
    assert wide == []


def test_the_first_screen_is_a_picture_with_its_layers_and_what_pruning_gave(desktop, page, payload):
    for width, height in ((1400, 900), (1920, 1080)):
        browser.show(desktop, page, width, height)
        wait(
            desktop,
            "return document.documentElement.dataset.ready === 'true' && document.getElementById('picture').width > 300",
        )
        assert text(desktop, "headline") == payload.summary.headline
        top = "return document.getElementById(arguments[0]).getBoundingClientRect()[arguments[1]]"
        assert desktop.execute_script(top, "layer", "bottom") < height
        assert desktop.execute_script(top, "picture", "bottom") < desktop.execute_script(top, "frontier", "top")
    example, summary = payload.examples[payload.summary.example], payload.summary
    assert text(desktop, "question") == example.question
    assert text(desktop, "pace") == summary.time
    assert "kernel" not in text(desktop, "lede") + text(desktop, "headline")
    assert "kernel" in text(desktop, "made")  # folded away, not lost


def test_a_picture_to_share_is_saved(desktop):
    desktop.execute_script(
        "window.saved = []; HTMLAnchorElement.prototype.click = function () { window.saved.push([this.download, this.href]); };"
        "document.getElementById('share').click()"
    )
    name, address = wait(desktop, "return window.saved[0]")
    assert name == "vispco-invented-vl.png"
    with Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))) as card:
        assert card.size == (1200, 630)
        assert len(card.convert("RGB").resize((120, 63)).getcolors(10_000)) > 50  # pictures, not an empty sheet


@pytest.mark.parametrize("width", [1400, 1920])
def test_no_table_is_clipped_on_a_wide_screen(desktop, page, width):
    browser.show(desktop, page, width, 900)
    wait(desktop, "return document.documentElement.dataset.ready === 'true'")
    test_no_table_is_clipped(desktop)
