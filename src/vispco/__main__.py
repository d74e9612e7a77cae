"""`python -m vispco` is `vispco`."""

from vispco.cli.main import run

if __name__ == "__main__":
    run()
