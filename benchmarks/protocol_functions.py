"""The functions of VLMEvalKit and lmms-eval that score and ask, taken from their source files by name."""

from __future__ import annotations

import ast
import copy
import os
import re
import string
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import numpy as np
import pandas as pd

from protocol_answers import Case
from vispco.data.files import Record

CLASSES = {
    "aokvqa": ("dataset/image_mcq.py", "ImageMCQDataset"),
    "mmbench": ("dataset/image_mcq.py", "ImageMCQDataset"),
    "seedbench": ("dataset/image_mcq.py", "ImageMCQDataset"),
    "textvqa": ("dataset/image_vqa.py", "ImageVQADataset"),
    "chartqa": ("dataset/image_vqa.py", "ImageVQADataset"),
    "mme": ("dataset/image_yorn.py", "ImageYORNDataset"),
    "vizwiz": ("dataset/image_base.py", "ImageBaseDataset"),
    "ocrbench": ("dataset/image_base.py", "ImageBaseDataset"),
}
FORMULA = "Handwritten Mathematical Expression Recognition"


class _Quiet:
    """Stands for their loggers."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def functions(path: Path, *names: str, **known: Any) -> dict[str, Any]:
    """Functions, and constants that are compiled patterns, of a file, without importing it; `known`: what they use."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    wanted = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    wanted += [node for node in tree.body if isinstance(node, ast.Assign) and "re.compile" in ast.unparse(node)]
    space = {"re": re, "os": os, "cp": copy, "string": string, "np": np, "pd": pd, "Optional": Optional,
             "logger": _Quiet(), **known}  # fmt: skip
    exec(compile(ast.Module(wanted, []), str(path), "exec"), space)  # noqa: S102 - what the user asked to compare with
    return space


def methods(path: Path, owner: str, *names: str, **known: Any) -> dict[str, Any]:
    """Methods of a class as functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner)
    wanted: list[ast.stmt] = [node for node in found.body if isinstance(node, ast.FunctionDef) and node.name in names]
    for node in wanted:
        node.decorator_list = []  # type: ignore[attr-defined]
    # `super().build_prompt(line)` has no class here; the base's function is called by name
    text = ast.unparse(ast.Module(wanted, [])).replace("super().build_prompt(line)", "base_prompt(self, line)")
    space = {"string": string, "pd": pd, "toliststr": lambda value: [str(value)], **known}
    exec(compile(text, str(path), "exec"), space)  # noqa: S102
    return space


class Harness:
    """Scores and prompts as one harness has them."""

    def __init__(self, root: Path, version: str) -> None:
        self.root, self.version = root, version
        if (root / "vlmeval").is_dir():
            self._read_vlmevalkit(root / "vlmeval")
        else:
            chart = functions(root / "lmms_eval/tasks/chartqa/utils.py", "relaxed_correctness")
            self._relaxed = lambda pred, answer: chart["relaxed_correctness"](pred.strip(), answer)

    def _read_vlmevalkit(self, root: Path) -> None:
        misc = functions(root / "smp/misc.py", "process_punctuation", "istype")
        match = functions(root / "utils/matching_util.py", "can_infer_option", "can_infer_text", "can_infer")
        yes_no = functions(
            root / "dataset/utils/yorn.py", "YOrN_Extraction", process_punctuation=misc["process_punctuation"]
        )
        vqa = functions(
            root / "dataset/utils/vqa_eval.py", "_process_digit_article", "process_answer", "process_line",
            "relaxed_correctness", istype=misc["istype"], process_punctuation=misc["process_punctuation"],
        )  # fmt: skip
        self._infer, self._yes_no, self._line = match["can_infer"], yes_no["YOrN_Extraction"], vqa["process_line"]
        source = (root / "dataset/image_vqa.py").read_text(encoding="utf-8")
        part = source[source.index("class OCRBench(") :]
        loop = part[part.index("if category == 'Handwritten") : part.index("final_score_dict = {}")]
        lines = [line[12:] for line in ("            " + loop).splitlines()]
        body = "\n".join("    " + line for line in lines)
        space: dict[str, Any] = {}
        exec(f"def contained(category, predict, answers, OCRBench_score):\n{body}\n", space)  # noqa: S102
        self._contained = space["contained"]
        base = methods(root / "dataset/image_base.py", "ImageBaseDataset", "build_prompt")["build_prompt"]
        self._prompts = {
            name: methods(root / path, owner, "build_prompt", base_prompt=base)["build_prompt"]
            for name, (path, owner) in CLASSES.items()
        }
        llava = methods(root / "vlm/llava/llava.py", "LLaVA", "build_prompt", "concat_tilist", cn_string=_is_chinese)
        self._llava, self._joined = llava["build_prompt"], llava["concat_tilist"]
        self._system = "".join(
            re.findall(r'"(.*)"', re.search(r"self\.system_prompt = \((.*?)\)\n", _file(root, "llava"), re.DOTALL)[1])  # type: ignore[index]
        )
        config = (root / "config.py").read_text(encoding="utf-8")
        entry = re.search(r'"Qwen2\.5-VL-3B-Instruct": partial\((.*?)\n    \)', config, re.DOTALL)
        if entry is None or "use_custom_prompt=False" not in entry[1]:
            raise SystemExit("VLMEvalKit no longer asks Qwen2.5-VL with the prompts of the datasets.")

    def score(self, name: str, case: Case) -> float:
        """Of one answer, as `evaluate` of the benchmark computes it without a judge model."""
        prediction, answers = case.prediction, list(case.record.references)
        if name == "chartqa" and not hasattr(self, "_line"):
            return float(self._relaxed(prediction, answers[0]))
        if name in ("aokvqa", "mmbench", "seedbench"):
            return float((self._infer(prediction, dict(case.record.options)) or "Z") == answers[0])
        if name == "mme":
            return float(self._yes_no(prediction) == answers[0])
        if name == "ocrbench":
            score = {case.record.meta["category"]: 0}
            self._contained(case.record.meta["category"], prediction, answers, score)
            return float(score[case.record.meta["category"]])
        line = {"answer": str(answers if name != "chartqa" else answers[0]), "prediction": prediction}
        found = self._line(line, "relaxed_accuracy" if name == "chartqa" else "vqa_score")["match"]
        return float(np.max(found) if name == "chartqa" else np.mean(found))

    def prompt(self, name: str, record: Record, family: str) -> str:
        """The text of the message."""
        line = {"question": record.question, "image_path": "picture.png", **record.options}
        if record.hint:
            line["hint"] = record.hint
        if family == "llava" and record.options:
            made = self._llava(_Llava(), line, "MMBench")
        else:
            made = self._prompts[name](SimpleNamespace(meta_only=True, dataset_name=name), line)
        return str(made[-1]["value"])

    def llava_conversation(self, text: str) -> str:
        """A message with the words that LLaVA's class writes around it."""
        content, _ = self._joined(None, [{"type": "image", "value": "picture.png"}, {"type": "text", "value": text}])
        return f"{self._system}USER: {content} ASSISTANT: "


def _is_chinese(text: str) -> bool:
    return re.search("[\u4e00-\u9fff]", text) is not None


class _Llava:
    def use_custom_prompt(self, dataset: str) -> bool:
        return bool(dataset)

    def dump_image(self, line: Any, dataset: str) -> list[str]:
        del line, dataset
        return ["picture.png"]


def _file(root: Path, name: str) -> str:
    return (root / "vlm" / name / f"{name}.py").read_text(encoding="utf-8")


def from_checkout(path: Path) -> Harness:
    command = ["git", "-C", str(path), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Harness(path, f"checkout {done.stdout.strip() or 'without git'}")


def from_pypi(name: str, folder: Path) -> Harness:
    """The newest wheel, unpacked; none of its dependencies."""
    into = folder / name
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(into), name]
    subprocess.run(command, check=True)
    wheel = next(into.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into)
    return Harness(into, wheel.name.removesuffix(".whl"))
