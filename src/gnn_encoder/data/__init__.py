"""From a source's files to the three tables: a reader for each source format, and one check for all of them.

A reader (`beir`, `dpr`, `query_log`, ...) makes a `rows.Source`: functions that yield rows, each with its place in the
source's files. `sources` chooses the reader. `prepare` writes the tables, cuts and samples the splits, and finds the
mistakes that no single row shows: duplicate and unknown ids.
"""
