"""The query-passage graph: its structure, one GAT layer (Eq. 3-5), the network (Eq. 6-10) and Masked Graph Training."""
