"""What a batch, a loss, a score and an answer mean for one problem: where the knot is tied."""
