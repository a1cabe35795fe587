"""From a source's files to the three tables: a reader for each source format, and one check for all of them.

A reader (`insuranceqa`, `beir`, `msmarco`, `dpr`, `ir_datasets`) is a `rows.Source`: it yields rows, and the place of
each in the source's files. `sources` chooses the reader. `prepare` writes the tables, cuts and samples the splits, and
finds the mistakes that no single row shows: duplicate and unknown ids.
"""
