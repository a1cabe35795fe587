"""What dual-encoder, cross-encoder and query generator share: transformers with one tokenizer and a number format."""

from typing import Self

from torch import nn
from transformers import PreTrainedTokenizerBase

from gnn_encoder.models.batch import Template
from gnn_encoder.models.device import working_dtype
from gnn_encoder.models.packing import pack_where_possible


class TextModel(nn.Module):
    """A transformer, or two, with the tokenizer of its texts. `precision` is one of `encoder.precision`."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, precision: str) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.template = Template(tokenizer)
        self.dtype = working_dtype(precision)

    def for_inference(self) -> Self:
        """Drop gradients and hold the weights in the working dtype, so that no batch has to cast them.

        In bf16 the weights also take half the memory, and a GPU computes no padding.
        """
        self.eval().requires_grad_(False).to(self.dtype)
        for model in self.children():
            pack_where_possible(model)
        return self
