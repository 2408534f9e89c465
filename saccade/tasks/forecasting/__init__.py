"""Forecasting: predict the next values of a time series."""
