"""A search that was stopped goes on: the same numbers, the same bill, and little of it done again."""

import json

import pytest

from search.random_batches import zoo_model
from search.test_run import SMALL, kernel_of
from vispco.core.runs.checksums import DamagedJournalWarning
from vispco.data import dataset
from vispco.search.objective import Objective
from vispco.search.run_search import search
from vispco.search.search_journal import NAME, SearchJournal, work_key


class Passes:
    """Counts an objective's passes, and raises what it is told to at one of them."""

    def __init__(self, monkeypatch, stop_at=None):
        self.count = 0
        real = Objective.divergence

        def counted(*args):
            self.count += 1
            if self.count == stop_at:
                raise KeyboardInterrupt
            return real(*args)

        monkeypatch.setattr(Objective, "divergence", counted)


def run(folder, mode, budgets=(0.5, 0.7)):
    model, processor = zoo_model()
    samples = dataset("calibration", limit=1)[:4]
    search(
        model, processor, samples, kernel=kernel_of(mode), mode=mode, budgets=budgets, directory=folder, effort=SMALL
    )
    spent = json.loads((folder / "config.json").read_text())["spent"]
    return json.loads((folder / "shapes.json").read_text()), spent


@pytest.mark.parametrize("mode", ["static", "line", "predictor"])
def test_a_stopped_search_goes_on_and_ends_as_if_it_had_not_been(mode, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        whole = Passes(patch)
        shapes, spent = run(tmp_path / "whole", mode)
    with monkeypatch.context() as patch:
        Passes(patch, stop_at=whole.count - 1)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "parts", mode)
    assert (tmp_path / "parts" / NAME).is_file()
    assert not (tmp_path / "parts" / "config.json").exists()
    with monkeypatch.context() as patch:
        rest = Passes(patch)
        assert run(tmp_path / "parts", mode) == (shapes, pytest.approx(spent))
    assert rest.count <= 0.6 * whole.count
    assert not (tmp_path / "parts" / NAME).exists()
    assert not (tmp_path / "whole" / NAME).exists()


def test_a_line_that_was_cut_short_is_not_read_and_harms_no_other(tmp_path):
    journal = SearchJournal(tmp_path)
    journal.add("a", [0.1, 1 / 3])
    with journal.path.open("a") as file:
        file.write('{"name":"b","result":[0.2')
    again = SearchJournal(tmp_path)
    assert "b" not in again
    again.add("c", {"found": 1})
    assert dict(SearchJournal(tmp_path).known) == {"a": [0.1, 1 / 3], "c": {"found": 1}}


def test_a_damaged_line_is_skipped_counted_and_worked_out_again(tmp_path):
    """A changed digit used to be taken for a result."""
    journal = SearchJournal(tmp_path)
    for name in "abc":
        journal.add(name, [0.125, 1 / 3])
    whole = journal.path.read_bytes()
    for place in range(whole.index(b'{"name":"b"'), whole.index(b'{"name":"c"') - 1):
        journal.path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.warns(DamagedJournalWarning, match=r"1 damaged line\(s\) of .*worked out again"):
            again = SearchJournal(tmp_path)
        assert set(again.known) == {"a", "c"}
    again.add("b", [0.125, 1 / 3])
    with pytest.warns(DamagedJournalWarning):
        assert SearchJournal(tmp_path).known == journal.known


def test_a_name_tells_apart_what_work_depends_on(batches):
    assert work_key("a", b"b") != work_key("a", b"c") != work_key(b"a", b"c")
    assert batches[0].name != batches[1].name
