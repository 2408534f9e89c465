"""Recipes: functions that return settings.

A recipe sets what was found to work well; settings that it leaves open are chosen from the data.
"""
