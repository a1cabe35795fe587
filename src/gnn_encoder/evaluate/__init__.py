"""How good systems are: measures, paired tests, slices, the claim; tables, figures and the report that show them."""
