"""A web page where one drops a picture, asks, and moves the budget. Runs locally, and as a Hugging Face Space unchanged.

from vispco.serving.play import build_page

build_page("tiny-qwen").launch()
"""

from vispco.serving.play.page import build_page, start
from vispco.serving.play.session import PlaySession

__all__ = ["PlaySession", "build_page", "start"]
