"""From a source's files to the three tables: one reader a source format, one check for all of them.

A reader (`insuranceqa`, `beir`, `msmarco`, `dpr`, `ir_datasets`) is a `rows.Source`: it yields rows and can say where
each of them stands; `sources` chooses one. `prepare` writes the tables, cuts and samples the splits, and finds what no
single row can show: duplicate and unknown ids.
"""
