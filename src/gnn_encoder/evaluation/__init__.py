"""Runs, measures by ir-measures, paired significance tests, the ceiling by reranking, and costs."""
