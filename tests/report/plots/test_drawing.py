"""Figures become files of the kind that was asked for, whole or not at all."""

import builtins

import pytest
from PIL import Image

from report.invented import searched, swept
from vispco.core.errors import InvalidInputError, MissingExtraError
from vispco.evaluation.frontier import Frontier
from vispco.report import plots
from vispco.report.plots import style
from vispco.report.plots.style import COLOURS, log_axis, look_of

pytest.importorskip("matplotlib")
HEADS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def test_every_figure_of_a_run_is_drawn(run, other, tmp_path):
    files = plots.figures([run, other], tmp_path)
    names = {file.stem for file in files}
    assert names == {
        "configurations-multi-step",
        "configurations-linear",
        "retention-by-budget-multi-step",
        "retention-by-budget-linear",
        "survivors-multi-step-0",
        "areas-multi-step",
        "frontiers-by-kernel",
        "retention-by-kernel",
        "accuracy-by-search-cost",
        "search-cost-multi-step",
    }
    for file in files:
        with Image.open(file) as image:
            assert min(image.size) > 200
            assert len(image.convert("L").getcolors(1 << 20)) > 10  # not an empty sheet
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in files}


@pytest.mark.parametrize("suffix", HEADS)
def test_the_suffix_says_what_is_written(suffix, tmp_path):
    path = plots.draw_configurations(plots.configurations_info(swept(), searched()), tmp_path / f"f.{suffix}")
    assert path.read_bytes().startswith(HEADS[suffix])


def test_the_same_numbers_give_the_same_file(tmp_path):
    info = plots.retention_by_budget_info(searched())
    one, two = (plots.draw_retention(info, tmp_path / f"{name}.svg").read_bytes() for name in "ab")
    assert one == two


def test_another_kind_of_file_is_refused(tmp_path, run):
    with pytest.raises(InvalidInputError, match=r"\.png, \.svg or \.pdf"):
        plots.draw_retention(plots.retention_by_budget_info(searched()), tmp_path / "figure.bmp")
    with pytest.raises(InvalidInputError, match="png, svg or pdf"):
        plots.figures([run], tmp_path, "bmp")
    with pytest.raises(InvalidInputError, match="No run"):
        plots.figures([], tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        plots.draw_retention(plots.retention_by_budget_info(searched()), tmp_path / "file" / "figure.png")


def test_a_missing_matplotlib_is_named(tmp_path, monkeypatch):
    load = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with (
        pytest.raises(MissingExtraError, match=r"matplotlib\. .*pip install '\.\[plots\]'"),
        style.canvas(tmp_path / "f.png"),
    ):
        pass


def test_a_comparison_alone_has_its_figure_and_nothing_at_all_is_told(run, tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "comparison.json").write_bytes((run / "comparison.json").read_bytes())
    (figure,) = plots.figures([alone], tmp_path / "figures", "svg")
    assert figure.name == "search-cost.svg"
    assert "seconds of the search" in figure.read_text()
    Frontier(()).save(tmp_path / "none" / "study.frontier.json")
    with pytest.raises(InvalidInputError, match="no figure can be drawn"):
        plots.figures([tmp_path / "none"], tmp_path / "figures")


@pytest.mark.parametrize(("ends", "shown"), [((9.0, 80.0), ["10", "20", "50"]), ((900.0, 6000.0), ["1,000", "5,000"])])
def test_a_logarithmic_axis_has_plain_numbers(ends, shown):
    from matplotlib.figure import Figure

    plot = Figure().subplots()
    plot.plot(ends, (0, 1))
    log_axis(plot.xaxis)
    texts = [label.get_text() for label in plot.get_xticklabels()]
    assert set(shown) <= set(texts)
    assert not any("10^" in text for text in texts)


def test_more_curves_than_colours_still_differ():
    looks = [tuple(map(str, look_of(place).values())) for place in range(2 * len(COLOURS))]
    assert len(set(looks)) == len(looks)
