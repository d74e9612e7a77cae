"""From a budget to a schedule: the paper's gradient search, its rivals, and a predictor that does it per sample."""
