"""A trained query encoder on disk: its settings, and the files that every export of it takes over."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tokenizers import normalizers

from gnn_encoder.core.errors import not_built
from gnn_encoder.core.storage.atomic import write_json
from gnn_encoder.models.dual_encoder import DualEncoderSettings
from gnn_encoder.models.query_encoder import CONFIG, FILES, SETTINGS, TOKENIZER, TOKENIZER_CONFIG, query_tokenizer

OWN = (SETTINGS, "history.csv", "manifest.json")  # ours, of no use to other tools


@dataclass(frozen=True, kw_only=True)
class SavedQueryEncoder:
    """The query side of a folder that `DualEncoder.save` wrote; `dimension` is the columns of an embedding."""

    folder: Path
    settings: DualEncoderSettings
    dimension: int

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read it.

        Raises:
            UserError: a file is missing.
        """
        for name in FILES:
            if not (folder / name).is_file():
                raise not_built(folder / name)
        settings, config = (json.loads((folder / name).read_text(encoding="utf-8")) for name in (SETTINGS, CONFIG))
        return cls(folder=folder, settings=DualEncoderSettings(**settings), dimension=config["hidden_size"])

    def copy_model(self, target: Path) -> None:
        """Copy configuration and weights, and whatever else the model was saved with."""
        for file in self.folder.iterdir():
            if file.is_file() and file.name not in (*OWN, TOKENIZER, TOKENIZER_CONFIG):
                shutil.copyfile(file, target / file.name)

    def copy_tokenizer(self, target: Path, *, prefixed: bool = False) -> None:
        """Copy the tokenizer, and let it cut queries where the encoder was trained to, and pad a batch, by itself.

        Tools that ask their tokenizer for the longest input would read more of a query than training did.

        Args:
            target: an existing folder.
            prefixed: it also puts the prefix before a query. transformers makes some tokenizers anew and loses that.
        """
        config = json.loads((self.folder / TOKENIZER_CONFIG).read_text(encoding="utf-8"))
        config.pop("max_length", None)  # that of a call, which some models were saved with
        write_json(target / TOKENIZER_CONFIG, {**config, "model_max_length": self.settings.query_length})
        tokenizer, prefix = query_tokenizer(self.folder), self.settings.query_prefix
        if prefix and prefixed:
            then = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
            tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(prefix), *then])
        tokenizer.save(str(target / TOKENIZER))
