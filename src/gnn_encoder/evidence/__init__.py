"""What the GNN-encoder paper shows of its method: ablations, sweeps, attention, times, cases (sections 4.5, 4.6, B)."""
