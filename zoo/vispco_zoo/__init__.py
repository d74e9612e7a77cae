"""Training of the shipped models: recipes, drawn training scenes, the trainer and the export of weights."""
