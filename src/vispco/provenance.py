"""Where numbers come from: the versions and the machine that made them. Reads package metadata; imports no torch."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from vispco.version import __version__

PACKAGES = ("torch", "transformers", "accelerate", "optuna", "numpy")


def versions() -> dict[str, str]:
    """vispco, Python, and the packages that results depend on, as far as they are installed."""
    found = {"vispco": __version__, "python": platform.python_version()}
    for package in PACKAGES:
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
