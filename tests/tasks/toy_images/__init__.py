"""A toy task whose inputs are NumPy arrays: classify images of bars by their direction."""
