"""A predictor from a table of measured KL: scouting of anchors, the table, and what is learned from it."""
