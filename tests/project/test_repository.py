"""The files that people and services expect in a repository are there, and say what is so."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from project.sources import PACKAGE, ROOT
from vispco.version import __version__

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
EXPECTED = (
    "AGENTS.md",
    "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "LICENSE",
    "CITATION.cff",
)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_file_is_there(name):
    assert (ROOT / name).read_text().strip()


def test_the_citation_names_the_version_and_the_licence():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == __version__
    assert citation["license"] == project["license"]
    assert citation["authors"]


def test_no_file_sends_people_to_a_place_where_vispco_is_not():
    """It has no public repository and is on no package index yet: the ways in are the clone and `pip install .`."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    texts = [
        ROOT / name for name in listed.split("\0") if name.endswith((".md", ".py", ".toml", ".yml", ".cff", ".txt"))
    ]
    nowhere = re.compile(r"(github\.com|github\.io)/vispco|pip install [\"']?vispco|install --upgrade vispco")
    found = [str(path.relative_to(ROOT)) for path in texts if path.exists() and nowhere.search(path.read_text())]
    assert found == [str(Path(__file__).relative_to(ROOT))]


def test_the_map_for_agents_is_short_and_has_every_package():
    text = (ROOT / "AGENTS.md").read_text()
    assert len(text.splitlines()) <= 60
    table = text.partition("## The tree")[2].partition("## ")[0]
    named = {name.removeprefix("src/vispco/") for name in re.findall(r"`([\w/.]+)`", table)}
    packages = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert packages <= named
    assert [name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()] == [
        "results/NAME.json"
    ]


def test_the_changelog_is_of_this_version_and_short():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert len(text.encode()) <= 6_000
    assert re.findall(r"^## (.+)$", text, re.MULTILINE)[0] == __version__


@pytest.mark.parametrize(("target", "extra"), [("demo", "search"), ("types", "dev")])
def test_a_command_of_the_readme_installs_what_it_needs_and_no_more(target, extra, tmp_path):
    command = ["make", "--dry-run", target, f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert re.findall(r"--editable '(.+)'", done.stdout) == [f".[{extra}]"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_a_workflow_runs_what_exists_and_needs_no_secret(path):
    text = path.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= TARGETS
    for job in workflow["jobs"].values():
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])


def test_there_is_a_workflow_for_tests_for_docs_and_for_a_release():
    commands = {path.stem: path.read_text() for path in WORKFLOWS}
    assert "make test" in commands["ci"]
    assert "make docs" in commands["docs"]
    assert "python -m build" in commands["release"]
    assert "make lower-bounds" in commands["lower-bounds"]


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.stem)
def test_an_issue_template_is_valid(path):
    template = yaml.safe_load(path.read_text())
    if path.stem == "config":
        assert template == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} <= template.keys()
    assert len({field["id"] for field in template["body"]}) == len(template["body"])


def test_the_pre_commit_hooks_are_valid_and_need_no_network():
    path = ROOT / ".pre-commit-config.yaml"
    command = [sys.executable, "-m", "pre_commit", "validate-config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    config = yaml.safe_load(path.read_text())
    assert {repository["repo"] for repository in config["repos"]} == {"local"}
    assert {hook["language"] for hook in config["repos"][0]["hooks"]} <= {"system", "pygrep"}
