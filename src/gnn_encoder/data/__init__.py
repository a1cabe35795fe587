"""From a source's files to the tables of passages, queries and judgements: readers of each format, one check of all."""
