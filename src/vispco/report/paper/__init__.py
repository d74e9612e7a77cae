"""The paper's tables, figures and statements for any model, assembled from runs of the other commands."""
