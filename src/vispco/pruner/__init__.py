"""What a deployed pruner needs: the predictor, the planner that turns a budget into token plans, and a search's files."""
