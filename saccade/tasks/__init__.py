"""One folder per task: settings, data, objective, prediction, evaluation, inspection."""
