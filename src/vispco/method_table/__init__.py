"""The paper's first table for a model: published methods on equal terms, by one account."""

from vispco.method_table.fill import fill_table
from vispco.method_table.ground import Ground
from vispco.method_table.table import MethodTable, MethodTableRow, TableSettings
from vispco.method_table.views import csv_text, latex_text, text_rows

__all__ = [
    "Ground",
    "MethodTable",
    "MethodTableRow",
    "TableSettings",
    "csv_text",
    "fill_table",
    "latex_text",
    "text_rows",
]
