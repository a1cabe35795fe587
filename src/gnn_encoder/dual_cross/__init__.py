"""Dual-Cross-Encoder: passages encoded together with generated questions, several views a passage."""
