"""The paper: the query-passage graph, two GAT layers (Eq. 3-10), and Masked Graph Training (Algorithm 1)."""
