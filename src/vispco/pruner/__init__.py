"""Pruners and what they are made of: `PrunerSpec`, planners from budgets to token plans, predictors, files of a search."""
