"""Writes docs/commands.md: every command with its options and examples, from the commands themselves.

python docs/write_commands.py
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from vispco.cli.main import app
from vispco.cli.names import expand

GENERAL = ("help", "config", "quiet", "verbose", "log_file")  # of every command
PAGE = Path(__file__).parent / "commands.md"
BEGINNING = """# The commands

*Written by `python docs/write_commands.py` from the commands themselves.*

```sh
vispco demo                          # all of it on tiny-qwen: search, sweep, times, a page in runs/demo/report.html
vispco search tiny-qwen --out runs/one
vispco report runs/one
```

MODEL is a shipped model (`tiny-qwen`, `tiny-llava`, `tiny-gemma`, `tiny-qwen3`, `tiny-deep`), a folder made by
`save_pretrained`, or a hub id.

**What all of them share.** `--json` prints the result as JSON on stdout, and nothing else goes there. Progress and
notes go to stderr: bars on a terminal, elsewhere a line every ten seconds, with `--json` as well. `--quiet` leaves
errors and warnings, `--verbose` adds the options in effect and how long it took, `--log-file FILE` keeps what is said,
with the time. `--budget` and `--budgets` are one option, and a budget may be written `0.5` or `50%`. The exit code is
0, 1 for an error (one sentence on stderr; `vispco --debug COMMAND ...` shows where it came from), 2 for options that
cannot be read, 130 after Ctrl-C. Files appear whole or not at all. The same command continues an interrupted one: a
demo by stage, a search by measured pass or checkpoint, a sweep by configuration, a comparison by method; `evaluate`,
`bench` and what takes seconds start over. `vispco --install-completion` teaches your shell the commands, options, and
names of models, scorers and tasks.

**How long they take** on one core, in processor time, on a shipped model and with the options of the README: `zoo
list` half a second; `info` 3 to 4 seconds, `ask` and `check` 4 to 8; `evaluate` (1,024 items) 26, `bench` 26 and
`profile` 48 seconds; `sweep` two minutes, `demo` four, `search` five, `compare methods` six, `compare searches`
thirteen. All show what is left. A sweep asks 16 items of each task unless `--limit` says otherwise.

**Config files.** `--config FILE` reads options from YAML or JSON; what is on the command line comes first. Keys are the
options' names; one that the command does not take is refused, with those that it takes. A file may have a section for
each command:

```yaml
search:
  model: tiny-qwen
  scorer: sparsevlm
  budgets: [0.3, 0.5, 0.7]
  out: runs/sparsevlm
bench:
  model: tiny-qwen
  pruner: [runs/sparsevlm]
```

A run keeps the options that it ran with (`options` in its `config.json`, beside command, seed, versions, machine, cost
model and seconds), and that file is a config, too: `vispco search --config runs/sparsevlm/config.json --out
runs/again`.
"""


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its full name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def section(name: str, command: Any) -> str:
    """Usage, what it does, examples, options."""
    told, _, examples = (command.help or "").partition("Example")
    lines = [line.strip() for line in examples.splitlines()[1:] if line.strip()]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(["vispco", name, *(p.name.upper() + ("..." if p.nargs != 1 else "") for p in arguments)])
    rows = [_row(p) for p in command.params if p.name not in GENERAL]
    return "\n".join(
        [
            f"## `{usage}`",
            "",
            textwrap.fill(" ".join(told.split()), 120, break_on_hyphens=False),
            "",
            *(["```sh", *lines, "```", ""] if lines else []),
            "| | default | |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name, default = f"`{parameter.name.upper()}`", ""
    else:
        name = ", ".join(f"`{opt}`" for opt in (*parameter.opts, *parameter.secondary_opts))
        default = "" if parameter.default is None or isinstance(parameter.default, bool) else f"`{parameter.default}`"
        if parameter.secondary_opts:
            default = f"`{(parameter.opts if parameter.default else parameter.secondary_opts)[0]}`"
    return f"| {name} | {default} | {expand(parameter.help or '').replace('|', '/')} |"


def page() -> str:
    sections = [section(name, command) for name, command in commands(typer.main.get_command(app))]
    return "\n".join([BEGINNING, *sections])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
