"""Views of the corpus: every passage is encoded together with each of its generated queries (Eq. 9, 10)."""

from gnn_encoder.core import project
from gnn_encoder.core.errors import UserError
from gnn_encoder.encoding.inputs import Couples
from gnn_encoder.encoding.tokens import TextTokens
from gnn_encoder.models.dual_encoder import DualEncoder

QUERIES = project.GENERATED / "queries.parquet"


def view_inputs(encoder: DualEncoder, queries: TextTokens, passages: TextTokens, views: int) -> Couples:
    """The inputs of E_P: row r is generated query r with passage r // views, d_j^i = CE_d(q_j^i + d_j) (Eq. 10).

    Raises:
        UserError: the encoder reads passages alone, or there are not exactly `views` queries for each passage.
    """
    length = encoder.settings.pair_length
    if length is None:
        raise UserError(
            f"{encoder.tokenizer.name_or_path}: this encoder reads passages alone and has no views of them; "
            "run the stage cache_passages instead"
        )
    check_queries(queries, len(passages), views)
    return Couples(
        first=queries,
        second=passages,
        size=len(queries),
        rows_of=lambda rows: (rows, rows // views),
        template=encoder.template,
        max_length=length,
    )


def check_queries(queries: TextTokens, n_passages: int, views: int) -> None:
    """Make sure that there are exactly `views` generated queries for each passage.

    Raises:
        UserError: there are more or fewer.
    """
    if len(queries) != n_passages * views:
        raise UserError(
            f"{QUERIES}: {len(queries)} queries, expected {n_passages * views}: dual_cross.views = {views} for each of "
            f"{n_passages} passages; generate them again (`dvc repro`)"
        )
