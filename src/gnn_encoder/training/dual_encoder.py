"""Training a dual-encoder by Eq. 2, or by PAIR's Eq. 6."""

from functools import partial

from torch import nn

from gnn_encoder.encoding.corpus import alone
from gnn_encoder.encoding.tokens import TextTokens
from gnn_encoder.models.dual_encoder import DualEncoder
from gnn_encoder.training.contrastive import Batches, Texts, contrastive_step
from gnn_encoder.training.dev import DevSample
from gnn_encoder.training.dev_score import DevScore, Views, retrieval_score
from gnn_encoder.training.examples import Examples
from gnn_encoder.training.params import Contrastive


def dev_score(
    encoder: DualEncoder, texts: Texts, dev: tuple[DevSample, TextTokens], batch_tokens: int, views: Views | None = None
) -> DevScore:
    """The dev score of a dual-encoder.

    Args:
        dev: the sample, and tokens of the dev queries.
        batch_tokens: padded tokens that the encoder reads at a time.
        views: what E_P reads in search; None: passages alone.
    """
    read = views or Views(inputs=alone(encoder, texts.passage_tokens))
    return partial(retrieval_score, encoder, *dev, read, batch_tokens)


class ContrastiveTask:
    """Training of a dual-encoder by `batch_loss`.

    Args:
        seed: of the batches.
        score: its dev score.
        alpha: weight of PAIR's passage-centric loss (PAIR Eq. 6).
    """

    def __init__(
        self,
        encoder: DualEncoder,
        texts: Texts,
        examples: Examples,
        settings: Contrastive,
        *,
        seed: int,
        score: DevScore,
        alpha: float = 0.0,
    ) -> None:
        self.modules: dict[str, nn.Module] = {"encoder": encoder}
        self.evaluate = score
        self._encoder, self._texts, self._examples, self._settings = encoder, texts, examples, settings
        self._batches = Batches(len(examples), settings.epochs, settings.batch_size, seed)
        self._alpha = alpha
        encoder.train()

    def __len__(self) -> int:
        return len(self._batches)

    def step(self, number: int) -> float:
        """Forward and backward of one batch, through GradCache."""
        batch, size = self._batches.draw(self._examples, number, self._settings.negatives), self._settings.chunk_size
        return contrastive_step(self._encoder, self._texts, batch, self._examples, size, self._alpha)
