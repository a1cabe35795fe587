"""The process that explains: `python -m gnn_encoder.serving.explain_worker`, in the project's root.

It reads requests from stdin and answers on stdout, one line each (pipes.py), and ends when stdin does: so it never
outlives the server. Whatever libraries print goes to stderr.
"""

import os
import sys


def main() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    from gnn_encoder.serving import pipes
    from gnn_encoder.serving.explaining import Explainers

    explainers = Explainers()
    while (request := pipes.read(sys.stdin.buffer)) is not None:
        answers.write(pipes.encode({"id": request["id"], **explainers.answer(request)}))
        answers.flush()


if __name__ == "__main__":
    main()
