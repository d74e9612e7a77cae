"""The page of `vispco play`, in Gradio."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from vispco.core.errors import VispcoError, needs_extra
from vispco.families import family_of
from vispco.models.model_spec import ModelSpec
from vispco.models.shipped import NAMES
from vispco.pruner.presets import PRESETS
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.serving.ask import rows
from vispco.serving.play.session import PLAIN, Asked, PlaySession

_INTRODUCTION = """# Which visual tokens can {model} do without?

Drop a picture, ask, and move the budget. The model answers with all of its visual tokens, and with what the budget
leaves. {about}"""
_EMPTY = "*Drop a picture and press Ask: both answers, what they cost and the tokens that are left will stand here.*"
_TRIES = 8
_COLUMNS = ["", "unpruned", "pruned"]
_CSS = """
.gradio-container { max-width: 1180px !important; margin: auto; }
:root, .dark, .gradio-container { --slider-color: #0a5a9c; --button-primary-background-fill: #0a5a9c;
--button-primary-background-fill-hover: #08477b; --button-primary-border-color: #0a5a9c; }
#introduction h1 { font-family: Georgia, serif; font-weight: 400; }
#answers table { width: 100%; table-layout: fixed; }
#answers table, #answers td, #answers th { border-color: var(--border-color-primary) !important; }
#answers td, #answers th { overflow-wrap: anywhere; padding: 0.4rem 0.7rem !important; }
footer { display: none !important; }
"""


def build_page(
    model: str | PlaySession = "tiny-qwen", spec: PrunerSpec | None = None, *, name: str | None = None
) -> Any:
    """The page as `gradio.Blocks`, for a model's name or a session; `start(page)` starts it.

    name: of a session's model; a shipped one begins with a picture that it knows.
    """
    gradio = load_gradio()
    session = (
        model
        if isinstance(model, PlaySession)
        else PlaySession(*ModelSpec(model).load(), spec or PrunerSpec.usual(model))
    )
    layers = len(family_of(session.model).layers(session.model))
    name = model if isinstance(model, str) else name
    picture, question = _first_question(session, name)
    about = f"It has {layers} layers" + (" and knows eight synthetic tasks with drawn pictures." if picture else ".")

    def ask(file: str | None, text: str, budget: float, method: str, layer: int, last: Asked | None) -> tuple[Any, ...]:
        try:
            asked = session.ask(file, text, budget, method, last)
        except VispcoError as error:
            raise gradio.Error(str(error), duration=8, print_exception=False) from error
        return asked, _table(rows(asked.comparison)), *session.survivors(asked, layer)

    def again(file: str | None, text: str, budget: float, method: str, layer: int, last: Asked | None) -> Any:
        """Another budget or method of a question that was asked; nothing before that."""
        if last is None:
            return gradio.skip()
        return ask(file, text, budget, method, layer, last)

    with gradio.Blocks(title=f"vispco: {name or 'play'}", analytics_enabled=False) as page:
        gradio.Markdown(_INTRODUCTION.format(model=name or "this model", about=about), elem_id="introduction")
        last = gradio.State(None)
        with gradio.Row():
            with gradio.Column(min_width=300):
                shown = gradio.Image(
                    value=picture, type="filepath", label="Picture", height=300, elem_id="picture", sources=["upload"]
                )
                words = gradio.Textbox(value=question, label="Question", elem_id="question", max_lines=3)
                budget = gradio.Slider(
                    0.05, 1.0, session.spec.budget, step=0.05, label="Budget", elem_id="budget",
                    info="a fraction of the unpruned language model's FLOPs",
                )  # fmt: skip
                method = gradio.Dropdown(
                    list(dict.fromkeys([session.own_method, PLAIN, *PRESETS])), value=session.own_method, label="Method", elem_id="method",
                )  # fmt: skip
                button = gradio.Button("Ask", variant="primary", elem_id="ask")
            with gradio.Column(min_width=300):
                answers = gradio.Markdown(_EMPTY, elem_id="answers", label="Answers")
                layer = gradio.Slider(0, layers - 1, layers // 2, step=1, label="Layer", elem_id="layer")
                caption = gradio.Markdown(elem_id="caption")
                left = gradio.Image(
                    label="Visual tokens that are left", interactive=False, elem_id="left", height=420,
                    buttons=["download", "fullscreen"],
                )  # fmt: skip
        given, taken = [shown, words, budget, method, layer, last], [last, answers, left, caption]
        options: dict[str, Any] = {"concurrency_limit": 1, "concurrency_id": "model", "show_progress": "minimal"}
        gradio.on([button.click, words.submit], ask, given, taken, **options)
        gradio.on([budget.change, method.change], again, given, taken, trigger_mode="always_last", **options)
        if picture is not None:  # the page opens with an answer
            page.load(ask, given, taken, **options)
        layer.change(
            session.survivors, [last, layer], [left, caption],
            trigger_mode="always_last", show_progress="hidden",
        )  # fmt: skip
    return page


def start(page: Any, *, host: str = "127.0.0.1", port: int | None = None, browser: bool = False) -> str:
    """Start the page, and give its address. On a Space, `page.launch()` does the same with Gradio's defaults."""
    _, url, _ = page.launch(
        server_name=host,
        server_port=port,
        inbrowser=browser,
        prevent_thread_lock=True,
        share=False,
        quiet=True,
        max_file_size="20mb",
        css=_CSS,
        footer_links=[],
        ssr_mode=False,
    )
    return str(url)


def load_gradio() -> Any:
    """The package, or a sentence on how to get it."""
    with needs_extra("The page needs Gradio", "play"):
        import gradio  # noqa: PLC0415
    return gradio


def _table(found: list[list[str]]) -> str:
    lines = [_COLUMNS, ["---"] * len(_COLUMNS), *([_plain(cell) for cell in row] for row in found)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _plain(text: str) -> str:
    """A model's words inside a Markdown table, with nothing in them that means something there."""
    flat = " ".join(text.split())
    return "".join(f"&#{ord(letter)};" if letter in "|`*_<>[]\\#&~$!{}" else letter for letter in flat)


def _first_question(session: PlaySession, model: str | None) -> tuple[str | None, str]:
    """Something to begin with: for models that were trained on drawn pictures, one that they answer rightly."""
    from vispco.data import dataset  # noqa: PLC0415

    if model not in NAMES:
        return None, "What is in this picture?"
    path = Path(tempfile.mkdtemp(prefix="vispco-play-")) / "picture.png"
    large = sorted(dataset("test", "all", limit=4), key=lambda each: -each.area)
    for sample in large[:_TRIES]:
        sample.images[0].save(path)
        asked = session.ask(path, sample.question, 1.0, PLAIN, None)
        if sample.score(asked.comparison.unpruned.answer) == 1.0:
            break
    return str(path), sample.question
