"""What a run will cost here, before it runs, and parameters that fit data and time: `plan`, `init --data`."""
