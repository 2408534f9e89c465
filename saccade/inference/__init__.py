"""Inference engines for trained models: `engine.make_decoder(model, engine="fused")`."""
