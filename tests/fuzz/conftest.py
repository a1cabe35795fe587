"""How long it is tried: some examples, the same each time; with `--long` thousands of new ones."""

import os
import sys
from datetime import timedelta

from hypothesis import HealthCheck, Phase, settings

from ..conftest import LONG

ONE = timedelta(seconds=20)  # in which an example must end: a reader must not hang
FIXED = {"deadline": ONE, "suppress_health_check": list(HealthCheck)}
# Which example of many is the smallest that fails is looked for in the long form alone: it takes minutes.
settings.register_profile(
    "short", max_examples=15, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate], **FIXED
)
settings.register_profile("long", max_examples=4000, **FIXED)
# Where this folder alone is run, in one process, this is read before the option is.
settings.load_profile("long" if os.environ.get(LONG) or "--long" in sys.argv else "short")
