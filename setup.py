"""What pyproject.toml cannot say: the README as PyPI shows it, with links and pictures by their full addresses."""

import re
from pathlib import Path

from setuptools import setup

PAGES = "https://github.com/vispco/vispco/blob/main/"
PICTURES = "https://raw.githubusercontent.com/vispco/vispco/main/"
ELSEWHERE = r"(?!https?:|mailto:|#)"


def pypi_readme(text: str) -> str:
    """Relative links lead to the repository; relative pictures are fetched from it."""
    text = re.sub(rf'\b(src|srcset)="{ELSEWHERE}', rf'\1="{PICTURES}', text)
    text = re.sub(rf"(!\[[^\]]*\]\(){ELSEWHERE}", rf"\1{PICTURES}", text)
    text = re.sub(rf'\bhref="{ELSEWHERE}', f'href="{PAGES}', text)
    return re.sub(rf"(?<!!)(\[[^\[\]]*\]\(){ELSEWHERE}", rf"\1{PAGES}", text)


if __name__ == "__main__":
    readme = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    setup(long_description=pypi_readme(readme), long_description_content_type="text/markdown")
