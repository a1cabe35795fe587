"""Passages judged by the queries' answers, as DPR judges them (Karpukhin et al. 2020)."""
