"""Runs, measures by ir-measures, paired significance, tables and pictures."""
