"""scripts/commands_data.py: pages of a clone of tldr-pages become a folder in BEIR's format, with the kept splits."""

import json
import sys
from pathlib import Path

import polars as pl
import pytest

from gnn_encoder.base.errors import UserError

from ..project import ROOT

PAGES = {
    "common/mow-lawn.md": """# mow lawn

> Cut grass with `mow`.
> Some parts are in other pages.
> See also: `rake`.
> More information: <https://example.org/mow>.

- [c]ut the front lawn:

`mow {{front}}`

- Show `mow`'s blades:

`mow --blades`
""",
    "linux/mow-lawn.md": "# mow lawn\n\n> Another system's.\n\n- Mow by night:\n\n`mow -n`\n",
    "common/mower.md": "# mower\n\n> This command is an alias of `mow`.\n\n- View documentation:\n\n`tldr mow`\n",
}


def test_pages_become_a_beir_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import commands_data

    ours = pl.read_parquet(commands_data.SPLIT)
    assert ours["split"].value_counts(sort=True).rows() == [("test", 9374), ("dev", 3125)]
    for name, page in PAGES.items():
        (tmp_path / "clone/pages" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "clone/pages" / name).write_text(page)
    held_out = {commands_data.hashed("pmow-lawn", caption): split for caption, split in
                (("Show mow's  blades", "dev"), ("`mow` by [n]ight", "test"))}  # fmt: skip
    monkeypatch.setattr(commands_data, "SPLIT", tmp_path / "split.parquet")
    pl.DataFrame({"hash": list(held_out), "split": list(held_out.values())}).write_parquet(commands_data.SPLIT)
    monkeypatch.setattr(sys, "argv", ["commands_data.py", str(tmp_path / "clone"), str(tmp_path / "beir")])
    commands_data.main()
    passages, queries = (
        [json.loads(line) for line in (tmp_path / "beir" / f"{name}.jsonl").read_text().splitlines()]
        for name in ("corpus", "queries")
    )
    text = "Cut grass with mow. Some parts are in other pages."
    assert passages == [{"_id": "pmow-lawn", "title": "mow lawn", "text": text}]
    assert [query["text"] for query in queries] == ["cut the front lawn", "Show mow's blades", "Mow by night"]
    for split, qid in (("train", "q0"), ("dev", "q1"), ("test", "q2")):
        qrels = (tmp_path / "beir/qrels" / f"{split}.tsv").read_text()
        assert qrels == f"query-id\tcorpus-id\tscore\n{qid}\tpmow-lawn\t1\n"
    monkeypatch.setattr(sys, "argv", ["commands_data.py", str(tmp_path), str(tmp_path / "none")])
    with pytest.raises(UserError, match="none of our dev or test captions"):
        commands_data.main()
    assert not (tmp_path / "none").exists()
