"""What every room stands on: errors, files, tables, matrices, parameters, paths, and how a stage runs."""
