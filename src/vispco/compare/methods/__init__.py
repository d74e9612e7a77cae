"""The paper's first table for a model: published methods on equal terms, by one account."""

from vispco.compare.methods.comparison_setup import ComparisonSetup
from vispco.compare.methods.fill import fill_table
from vispco.compare.methods.table import MethodTable, MethodTableRow, TableSettings
from vispco.compare.methods.views import csv_text, latex_text, text_rows, write_table

__all__ = [
    "ComparisonSetup",
    "MethodTable",
    "MethodTableRow",
    "TableSettings",
    "csv_text",
    "fill_table",
    "latex_text",
    "text_rows",
    "write_table",
]
