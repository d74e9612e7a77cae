"""Search by gradient: the relaxation, the budget constraint, Algorithm 1 of the paper, and the training of a predictor."""
