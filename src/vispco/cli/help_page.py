"""The help of a command as plain text: options in groups, nothing cut off at 80 columns."""

import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import typer

_LEFT, _MOST = 26, 100  # where descriptions begin; the longest line, however wide the terminal is
_FIRST, LAST = "Options", "General"
_WORDS = {"int": "N", "float": "NUMBER", "path": "PATH"}  # by what a type is called; others are TEXT


def _width() -> int:
    """Columns that a line may have."""
    return max(40, min(_MOST, shutil.get_terminal_size().columns))


def command_help(command: Any, context: Any, examples_of: str = "Example") -> str:
    """Usage, what it does, examples, arguments and options."""
    about, _, examples = (command.help or "").partition(examples_of)
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    usage = " ".join(["Usage:", context.command_path, "[OPTIONS]", *map(_argument, arguments)])
    parts = [usage, _paragraphs(about)]
    lines = [line.strip() for line in examples.splitlines()[1:] if line.strip()]
    if lines:
        parts.append("\n".join([_heading("Examples"), *(example(line) for line in lines)]))
    if arguments:
        rows = [(_argument(each), _describe(each)) for each in arguments]
        parts.append(_section("Arguments", rows))
    for name, group in _groups(options).items():
        parts.append(_section(name, [(_label(each), _describe(each)) for each in group]))
    return "\n\n".join(parts)


def group_help(group: Any, context: Any) -> str:
    """Usage, what it is about, its commands in groups, and options."""
    panels: dict[str, list[tuple[str, str]]] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        first = (command.help or "").strip().partition("\n\n")[0]
        panel = getattr(command, "rich_help_panel", None)
        panels.setdefault(panel if isinstance(panel, str) else "Commands", []).append((name, " ".join(first.split())))
    options = [(_label(each), _describe(each)) for each in group.get_params(context)]
    left = max(len(name) for rows in panels.values() for name, _ in rows) + 4
    parts = [f"Usage: {context.command_path} [OPTIONS] COMMAND ...", _paragraphs(group.help or "")]
    parts += [_section(name, rows, left) for name, rows in panels.items()]
    return "\n\n".join(
        [*parts, _section(_FIRST, options), f"`{context.command_path} COMMAND --help` tells the options of one."]
    )


def _groups(options: Iterable[Any]) -> dict[str, list[Any]]:
    """Options by the name of their group, those without one first, what every command has last."""
    found: dict[str, list[Any]] = {_FIRST: []}
    for each in options:
        panel = getattr(each, "rich_help_panel", None)
        found.setdefault(LAST if each.name == "help" else panel if isinstance(panel, str) else _FIRST, []).append(each)
    found[LAST] = found.pop(LAST, [])
    return {name: group for name, group in found.items() if group}


def _section(name: str, rows: Sequence[tuple[str, str]], left: int = _LEFT) -> str:
    """A heading and what is under it, in two columns."""
    return "\n".join([_heading(name), *(_row(first, text, left) for first, text in rows)])


def _row(first: str, text: str, left: int = _LEFT) -> str:
    """A name and its description; a long name has a line of its own."""
    lines = _wrapped(text, _width() - left) or [""]
    if len(first) + 4 > left:
        return "\n".join([f"  {first}", *(" " * left + line for line in lines)])
    return "\n".join([f"  {first}".ljust(left) + lines[0], *(" " * left + line for line in lines[1:])]).rstrip()


def _label(option: Any) -> str:
    """'--out PATH', '-q, --quiet', '--kl / --no-kl'. Versions of typer keep the type of an option in different places."""
    names = ", ".join(sorted(option.opts, key=lambda name: name.startswith("--")))
    if option.secondary_opts:
        return f"{names} / {', '.join(option.secondary_opts)}"
    if option.is_flag or option.name == "help":
        return names
    kept = getattr(option, "type", None)
    name = kept.name if kept is not None else getattr(option.type_descriptor.annotation, "__name__", "")
    word = next((word for kind, word in _WORDS.items() if name.lower().startswith(kind)), "TEXT")
    return f"{names} {option.metavar or word}"


def _describe(parameter: Any) -> str:
    """What it is, and what it is without being given."""
    parts = [parameter.help] if getattr(parameter, "help", None) else []
    default = parameter.default
    if parameter.required:
        parts.append("[required]")
    elif parameter.param_type_name == "option" and parameter.show_default and default is not None:
        if isinstance(default, bool):
            parts.append(f"[default: {parameter.opts[0]}]" if default and parameter.secondary_opts else "")
        elif isinstance(default, int | float) or (str(default) and not isinstance(default, list | tuple)):
            parts.append(f"[default: {default}]")
    if getattr(parameter, "envvar", None):
        parts.append(f"[or: {parameter.envvar}]")
    return " ".join(filter(None, parts))


def _paragraphs(text: str) -> str:
    return "\n\n".join("\n".join(_wrapped(part, _width())) for part in text.split("\n\n") if part.strip())


def example(line: str) -> str:
    """A command line that can be copied: broken between words, with a backslash."""
    together = re.sub(r"(--[\w-]+) (?!-)", "\\1\0", line)  # an option and its value stay on one line
    lines = [part.replace("\0", " ") for part in _wrapped(together, _width() - 8)]
    return "\n".join("  " + "    " * bool(n) + part + " \\" * (n + 1 < len(lines)) for n, part in enumerate(lines))


def _wrapped(text: str, columns: int) -> list[str]:
    """Lines of at most `columns` columns, broken between words only."""
    return textwrap.wrap(" ".join(text.split()), columns, break_long_words=False, break_on_hyphens=False)


def _heading(text: str) -> str:
    return typer.style(f"{text}:", bold=True)


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper())
    name += "..." if parameter.nargs != 1 else ""
    return name if parameter.required else f"[{name}]"
