"""PAIR (Ren et al. 2021): passage-centric similarity and pseudo-labels."""
