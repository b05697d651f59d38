"""Learning: rows, losses, and the learners that update the weights."""
