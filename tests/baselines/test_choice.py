"""What is told of a choice."""

import pytest

from gnn_encoder.baselines.choice import Setting, best_of


@pytest.mark.parametrize(
    ("tried", "expected"),
    [
        ({-1.0: 0.1, 0.0: 0.2, 1.0: 0.3}, ["weight"]),
        ({-1.0: 0.4, 0.0: 0.2, 1.0: 0.3}, ["weight"]),
        ({-1.0: 0.1, 0.0: 0.3, 1.0: 0.2}, []),
        ({-2.0: 0.3005, -1.0: 0.3, 0.0: 0.2}, []),  # the end is hardly better than the number before it
        ({0.0: 0.3}, []),
    ],
)
def test_a_best_value_at_the_end_of_its_list_is_found(tried: dict[float, float], expected: list[str]) -> None:
    settings: list[Setting] = [{"weight": weight} for weight in tried]
    choice = best_of(settings, list(tried.values()), measure="RR@10", queries=1)
    assert choice.open_ends() == expected


def test_each_setting_has_its_own_list() -> None:
    settings: list[Setting] = [{"weight": weight, "neighbours": n} for weight in (0.0, 1.0, 2.0) for n in (1, 3)]
    values = [0.1, 0.1, 0.2, 0.4, 0.1, 0.3]  # best: weight 1, neighbours 3
    assert best_of(settings, values, measure="RR@10", queries=1).open_ends() == ["neighbours"]


def test_only_numbers_have_ends_and_a_setting_need_not_have_them() -> None:
    settings: list[Setting] = [
        {"by": "scores", "weight": 0.0},
        {"by": "scores", "weight": 0.1},
        {"by": "ranks", "k": 10},
    ]
    choice = best_of(settings, [0.1, 0.2, 0.1], measure="RR@10", queries=1)
    assert choice.open_ends() == ["weight"]


def test_a_number_beyond_which_there_is_none_is_no_open_end() -> None:
    settings: list[Setting] = [{"weight": weight, "neighbours": n} for weight in (0.0, 1.0) for n in (1, 3)]
    choice = best_of(settings, [0.1, 0.1, 0.3, 0.2], measure="RR@10", queries=1)
    assert choice.open_ends() == ["weight", "neighbours"]
    assert choice.open_ends({"neighbours": (1,)}) == ["weight"]
    assert choice.open_ends({"neighbours": (1,), "weight": (0.0, 1.0)}) == []
