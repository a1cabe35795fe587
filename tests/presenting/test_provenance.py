from pathlib import Path

from gnn_encoder.presenting.provenance import stages_table


def test_times_by_stage(empty: Path) -> None:
    assert stages_table().rows == [["all", "0", "–"]]
    (empty / ".scratch" / "times").mkdir(parents=True)
    (empty / ".scratch" / "times" / "mgt-pair.json").write_text('{"seconds": 6.5, "inputs": []}')
    runs = {"prepare": "prepared", "train_mgt@pair": "mgt/pair", "train_mgt@other": "mgt/other"}
    lines = [f"  {name}: {{cmd: x, outs: [{{path: data/{out}}}]}}" for name, out in runs.items()]
    (empty / "dvc.lock").write_text("\n".join(["schema: '2.0'", "stages:", *lines]))
    assert stages_table().rows == [
        ["prepare", "1", "–"],
        ["train_mgt", "2", "≥ 6.5 s"],
        ["all", "3", "≥ 6.5 s"],
    ]
