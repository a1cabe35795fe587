"""The report: one HTML file with all that a run has to show."""
