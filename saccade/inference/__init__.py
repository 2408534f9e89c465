"""Fused decoders for trained models."""
