"""The report: one HTML file with all results of a run."""
