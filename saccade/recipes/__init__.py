"""Recipes: functions that return settings, and nothing else.

A recipe sets what was tried and found good; what it leaves open follows from the data.
"""
