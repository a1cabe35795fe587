"""Dual-Cross-Encoder: passages encoded together with generated queries, several views a passage."""
