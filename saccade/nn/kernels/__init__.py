"""Fast paths of layers: in each module the reference comes first and the fast version below it."""
