"""Image captioning: generate a caption of an image."""
