"""Runs stages one after the other in this process, up to one that fails: `many_stages.py NAME@KEY NAME ...`."""

import runpy
import sys

for address in sys.argv[1:]:
    name, *key = address.split("@")
    sys.argv = [f"stages/{name}.py", *key]
    runpy.run_path(sys.argv[0], run_name="__main__")
