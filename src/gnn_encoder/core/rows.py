"""Numbers of rows: the one name for arrays of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.integer[Any]]  # rows of a table or a matrix, or places in a list, of any integer type
