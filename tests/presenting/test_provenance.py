from pathlib import Path

from gnn_encoder.presenting.provenance import stages_table


def test_times_and_sizes_by_stage(empty: Path) -> None:
    assert stages_table().rows == [["all", "0", "–", "0 B"]]
    (empty / ".scratch" / "times").mkdir(parents=True)
    (empty / ".scratch" / "times" / "mgt-pair.json").write_text('{"seconds": 6.5, "inputs": []}')
    out = "cmd: x, outs: [{path: data/%s, hash: md5, md5: aa, size: %d}]"
    runs = {"prepare": ("prepared", 1024), "train_mgt@pair": ("mgt/pair", 2048), "train_mgt@other": ("mgt/other", 1024)}
    lines = [f"  {name}: {{{out % of}}}" for name, of in runs.items()]
    (empty / "dvc.lock").write_text("\n".join(["schema: '2.0'", "stages:", *lines]))
    assert stages_table().rows == [
        ["prepare", "1", "–", "1.0 KiB"],
        ["train_mgt", "2", "≥ 6.5 s", "3.0 KiB"],
        ["all", "3", "≥ 6.5 s", "4.0 KiB"],
    ]
