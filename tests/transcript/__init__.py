"""Writes down what the program says and stores, to compare two versions of it."""
