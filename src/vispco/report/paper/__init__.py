"""The paper's tables, figures and statements for any model, assembled from runs of the other commands."""

from vispco.report.paper.paper_page import write_paper
from vispco.report.paper.paper_steps import PaperSettings, Step, plan

__all__ = ["PaperSettings", "Step", "plan", "write_paper"]
