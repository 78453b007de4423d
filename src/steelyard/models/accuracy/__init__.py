"""Accuracy first: name the accuracy, and get the most private release that is certainly good enough.

Two questions are kept apart: a loss that must be at most a public number, and a loss that must be near the unknown
best one. Names load from their own modules, so importing this package costs nothing.
"""
