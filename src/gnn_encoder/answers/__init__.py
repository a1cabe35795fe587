"""Passages judged by the questions' answers, as DPR judges them (Karpukhin et al. 2020)."""
