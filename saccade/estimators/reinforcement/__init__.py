"""Reinforcement learning with tables: planning, bandits, temporal differences. No torch."""
