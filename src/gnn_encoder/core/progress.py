"""Progress of what takes more than some seconds."""

import sys
import time
from typing import Any

from tqdm import tqdm as _Bar

from gnn_encoder.core import distributed

EVERY = 30.0  # seconds between two lines where there is no terminal


class tqdm(_Bar):  # type: ignore[type-arg]  # noqa: N801
    """tqdm's bar; where stderr is no terminal, a plain line every half minute instead, unless `disable` says more.

    Of several ranks the first one shows it.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        default = None if distributed.is_first() else True
        self.plain = settings.setdefault("disable", default) is None and not sys.stderr.isatty()
        self.began = time.time()
        self.due = self.began + EVERY
        super().__init__(*args, **settings | ({"disable": False, "delay": EVERY} if self.plain else {}))

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Show how far it is."""
        if not self.plain:
            super().display(msg, pos)
        elif time.time() >= self.due:
            self.due += EVERY
            of, took = f" of {self.total:,.0f}" if self.total else "", time.time() - self.began
            self.fp.write(f"{self.desc.removesuffix(': ')}: {self.n:,.0f}{of} {self.unit.strip()}, {took:.0f} s\n")
            self.fp.flush()

    def close(self) -> None:
        """End; where there is no terminal, without a last line."""
        if self.plain:
            self.delay = float("inf")
        super().close()
