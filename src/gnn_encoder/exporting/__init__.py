"""Trained systems in other tools' formats: the query encoder as a model folder, the passage vectors with their ids."""
