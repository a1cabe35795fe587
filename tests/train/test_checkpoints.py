"""Training state on disk: the same bits come back, moments too, shared weights are stored once."""

from pathlib import Path

import torch
from torch import nn

from gnn_encoder.train.loop import load_checkpoint, save_checkpoint

from .conftest import tiny_encoder


def trained(seed: int, steps: int) -> tuple[dict[str, nn.Module], torch.optim.AdamW]:
    torch.manual_seed(seed)
    modules: dict[str, nn.Module] = {"one": nn.Linear(3, 2), "two": nn.Linear(2, 1)}
    parameters = [p for module in modules.values() for p in module.parameters()]
    optimizer = torch.optim.AdamW([{"params": parameters[:2], "lr": 0.1}, {"params": parameters[2:], "lr": 0.01}])
    for _ in range(steps):
        optimizer.zero_grad()
        modules["two"](modules["one"](torch.randn(4, 3))).sum().backward()
        optimizer.step()
    return modules, optimizer


def test_round_trip(tmp_path: Path) -> None:
    modules, optimizer = trained(0, 3)
    progress = {"step": 3, "best": 0.1 + 0.2, "history": [{"loss": 1 / 3}]}
    save_checkpoint(tmp_path / "deep" / "last.pt", modules, optimizer, progress)
    others, other = trained(1, 0)
    assert load_checkpoint(tmp_path / "deep" / "last.pt", others, other) == progress
    for name in modules:
        for key, value in modules[name].state_dict().items():
            assert torch.equal(others[name].state_dict()[key], value)
    before, after = optimizer.state_dict(), other.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert before["state"].keys() == after["state"].keys() == {0, 1, 2, 3}
    for index, state in before["state"].items():
        assert state.keys() == after["state"][index].keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(after["state"][index][key], value) for key, value in state.items())
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["last.pt"]


def test_a_shared_encoder_is_stored_once(tiny_model: Path, tmp_path: Path) -> None:
    encoder = tiny_encoder(tiny_model).float()
    save_checkpoint(tmp_path / "shared", {"encoder": encoder}, None, {})
    save_checkpoint(tmp_path / "separate", {"encoder": tiny_encoder(tiny_model, shared=False).float()}, None, {})
    assert (tmp_path / "shared").stat().st_size < 0.55 * (tmp_path / "separate").stat().st_size
    other = tiny_encoder(tiny_model).float()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    load_checkpoint(tmp_path / "shared", {"encoder": other})
    for one, two in zip(encoder.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
    assert other.query is other.passage
