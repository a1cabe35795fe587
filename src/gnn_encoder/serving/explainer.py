"""The server's side of explanations: a process that holds torch, started when it is needed and again if it dies.

FAISS and torch crash in one process on macOS, and importing torch would triple a server's memory.
"""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from fastapi import HTTPException

from gnn_encoder.base.errors import UserError

SECONDS = 600.0  # that an answer may take; the first one waits until the graph is read
WAITING = 8  # questions that may wait


def explain(system: str, pid: str) -> dict[str, Any]:
    """Runs in the process, and is the only place that imports torch."""
    from gnn_encoder.serving.explaining import open_explainer

    return open_explainer(system).explain(pid)


def prepare_process() -> None:
    """The process ends with the server, however that ends. Ctrl-C is for the server alone."""

    def end_with_server() -> None:
        server = multiprocessing.parent_process()
        assert server is not None, "this runs in a process that the server has started"
        server.join()
        os._exit(0)

    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_server, daemon=True).start()


class Explainer:
    """Has one process answer one question after the other."""

    def __init__(self, answer: Callable[[str, str], Any] = explain) -> None:
        self._answer = answer
        self._pool: ProcessPoolExecutor | None = None
        self._waiting = 0

    async def explain(self, system: str, pid: str) -> Any:
        """What explaining.py tells of a passage.

        Raises:
            HTTPException: too many wait, the process died or took too long, or it cannot explain this.
        """
        if self._waiting >= WAITING:
            raise HTTPException(503, f"{self._waiting} explanations wait already: try again", {"Retry-After": "5"})
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # a fork would have what the server has loaded
            self._pool = ProcessPoolExecutor(1, context, prepare_process)
        pool = self._pool
        self._waiting += 1
        try:
            future = asyncio.get_running_loop().run_in_executor(pool, self._answer, system, pid)
            return await asyncio.wait_for(future, SECONDS)
        except UserError as error:
            raise HTTPException(409, str(error)) from error
        except (BrokenProcessPool, TimeoutError) as error:
            # Of a process that died all who wait learn, when a new one may be at work. One that hangs may be retired.
            if self._pool is pool or isinstance(error, TimeoutError):
                self.close()
            told = "the process that explains died or took too long: try again; the server's log may say why"
            raise HTTPException(503, told, {"Retry-After": "5"}) from error
        finally:
            self._waiting -= 1

    def retire(self) -> None:
        """Let the process end when it is done; the next question starts one that reads what is there then."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def close(self) -> None:
        """End the process now."""
        self.retire()
        for process in multiprocessing.active_children():
            process.kill()
