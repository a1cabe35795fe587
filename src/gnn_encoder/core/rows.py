"""Names for arrays that many functions take and return."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.integer[Any]]  # rows of a table or a matrix, or places in a list, of any integer type; -1: none
Scores = NDArray[np.float32]
Matrix = NDArray[np.float32]  # vectors, one a row
