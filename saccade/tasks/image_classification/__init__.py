"""Image classification: predict the class of an image."""
