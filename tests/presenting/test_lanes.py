from gnn_encoder.presenting.lanes import SHARED, TOGETHER, Drawing, arrange
from gnn_encoder.presenting.pipeline import Pipeline, Stage

ARROWS = """
prepare > train_retriever
train_retriever > train_dual_encoder
prepare > train_dual_encoder
train_dual_encoder > train_mgt@gnn_encoder
train_mgt@gnn_encoder > evaluate@gnn_encoder
train_dual_encoder > evaluate@gnn_encoder
train_retriever > pair_pretrain@pair_no_psr
train_retriever > pair_pretrain@pair
pair_pretrain@pair_no_psr > pair_finetune@pair_no_psr
pair_pretrain@pair > pair_finetune@pair
pair_finetune@pair_no_psr > evaluate@pair
pair_finetune@pair > evaluate@pair
pair_finetune@pair > train_mgt@gnn_encoder_pair
train_mgt@gnn_encoder_pair > evaluate@gnn_encoder_pair
pair_finetune@pair > pair_similarity
evaluate@gnn_encoder > compare
evaluate@pair > compare
"""


def pipeline_of(text: str) -> Pipeline:
    arrows = [tuple(line.split(" > ")) for line in text.strip().splitlines()]
    addresses = dict.fromkeys(address for arrow in arrows for address in arrow)
    stages = [Stage(address=address, outs=(), seconds=None, size=None) for address in addresses]
    return Pipeline(stages=stages, arrows={(a, b) for a, b in arrows})


def told(drawing: Drawing) -> dict[str, list[tuple[str, ...]]]:
    lanes: dict[str, list[tuple[str, ...]]] = {}
    for box in drawing.boxes:
        lanes.setdefault(box.lane, []).append((box.name, *(stage.system for stage in box.stages if stage.system)))
    return lanes


def test_stages_stand_with_the_branch_whose_models_need_them() -> None:
    assert told(arrange(pipeline_of(ARROWS))) == {
        SHARED: [("prepare",), ("train_retriever",)],
        "gnn_encoder": [("train_dual_encoder",), ("train_mgt", "gnn_encoder"), ("evaluate", "gnn_encoder")],
        "pair": [
            ("pair_pretrain", "pair_no_psr", "pair"),
            ("pair_finetune", "pair_no_psr", "pair"),
            ("evaluate", "pair"),
            ("pair_similarity",),
        ],
        "gnn_encoder_pair": [("train_mgt", "gnn_encoder_pair"), ("evaluate", "gnn_encoder_pair")],
        TOGETHER: [("compare",)],
    }


def test_arrows_that_follow_from_others_are_left_out() -> None:
    drawn = {(a.name, b.name) for a, b in arrange(pipeline_of(ARROWS)).arrows}
    assert ("train_retriever", "train_dual_encoder") in drawn and ("prepare", "train_dual_encoder") not in drawn
    assert ("train_dual_encoder", "evaluate") not in drawn


def test_a_stage_that_needs_one_of_its_name_has_a_box_of_its_own() -> None:
    arrows = "cache@first > train\ntrain > cache@second\ntrain > cache@third\ncache@second > evaluate@pair"
    boxes = arrange(pipeline_of(arrows)).boxes
    assert [[stage.address for stage in box.stages] for box in boxes if box.name == "cache"] == [
        ["cache@first"],
        ["cache@second", "cache@third"],
    ]


def test_stages_of_two_names_that_need_each_other_in_turn_are_not_collapsed() -> None:
    arrows = "a@1 > b@1\nb@2 > a@2\na@2 > evaluate@pair\nb@1 > evaluate@pair"
    drawing = arrange(pipeline_of(arrows))
    assert len(drawing.boxes) == 5 and all(len(box.stages) == 1 for box in drawing.boxes)
