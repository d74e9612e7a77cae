"""Provenance of a run: versions, machine and process. Imports no torch."""

import os
import platform
import socket
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vispco.version import __version__

_PACKAGES = ("torch", "transformers", "accelerate", "optuna", "numpy")


def versions() -> dict[str, str]:
    """vispco, Python, and the packages that results depend on, as far as they are installed."""
    found = {"vispco": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine(device: Any = None) -> dict[str, Any]:
    """Cores, memory, system, and the device that the model is on, where one is given.

    threads: those of torch, if it is loaded; they are what a CPU's times depend on.
    """
    found: dict[str, Any] = {"system": f"{platform.system()} {platform.machine()}", "cores": os.cpu_count()}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found["memory"] = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):
        found["threads"] = torch.get_num_threads()
    if device is not None:
        found["device"] = str(device)
        if torch is not None and str(device).startswith("cuda"):
            found["device"] = f"{device} ({torch.cuda.get_device_name(device)})"
    return found


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine_id() -> str:
    """This machine, boot and process namespace: two containers with one host name are two machines."""
    parts = [socket.gethostname()]
    for source in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        path = Path(source)
        try:
            parts.append(str(path.readlink()) if path.is_symlink() else path.read_text(encoding="ascii").strip())
        except OSError:
            parts.append("-")
    return "/".join(parts)


def process_start(pid: int) -> str | None:
    """When a process of this machine started, in the kernel's ticks; None when there is no such process.

    A number that another process has got since then has another start.
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except OSError:
        pass  # it exists and belongs to someone else
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return "-"  # no /proc here: that it exists is all we know
    return None if fields[0] in "ZX" else fields[19]
