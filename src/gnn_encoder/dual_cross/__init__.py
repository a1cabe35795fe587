"""Dual-Cross-Encoder: each passage is encoded together with each of its generated queries, one vector (view) each."""
