"""Control: acting in an environment so that the sum of rewards is large."""
