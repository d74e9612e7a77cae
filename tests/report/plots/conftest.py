import pytest

from report.invented import write_run


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A folder with everything that a run can hold; its numbers are invented."""
    return write_run(tmp_path_factory.mktemp("plots") / "multi-step", examples=1)


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("plots") / "linear", kernel="linear", skill=0.93, whole=False)
