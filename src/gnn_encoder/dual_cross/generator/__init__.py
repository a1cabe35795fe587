"""The query generation model P_QG(q|d) (section 3.4): training it, generating queries, and judging the queries."""
