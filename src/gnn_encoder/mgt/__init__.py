"""Masked Graph Training (section 3.4, Algorithm 1): schedule, dev sample, tasks, the two phases and the control."""
