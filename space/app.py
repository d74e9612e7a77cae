"""The page as a Hugging Face Space: `vispco play` without the command line. VISPCO_MODEL names another model."""

import os

from vispco.serving.play import build_page

page = build_page(os.environ.get("VISPCO_MODEL", "tiny-qwen"))

if __name__ == "__main__":
    page.launch(ssr_mode=False)
