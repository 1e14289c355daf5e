"""Ranges of sizes that cleave-trace finds: sizes that decide together, and where time runs out."""

import torch
from torch import nn

from cleave_trace.witnesses import guards, joint, ranges
from traces import module, sizes, witnesses


def test_a_step_that_is_not_the_first_divisor():
    """Sides that are halved three times and doubled again, also where sizes that agree are no multiples of smaller divisors."""
    def halved(self, x):
        low = nn.functional.max_pool1d(x, 8)
        return torch.cat([x, low.repeat_interleave(8, 2)], 1)

    group = witnesses(module(halved), torch.randn(2, 3, 48))[1]["x.2"]
    assert (group.min, group.divisible_by) == (8, 8)


def test_guards_of_two_dimensions_when_no_time_is_left(monkeypatch):
    """Guards of a call at larger sizes do not hold at the traced ones, where trace and module agree all the same."""
    def by_area(self, x):
        return x * 2 if x.shape[0] * x.shape[1] > 100 else x + x

    restrict = joint.restrict

    def without_time(search):
        search.budget.end, search.budget.guaranteed = 0.0, 0
        restrict(search)

    monkeypatch.setattr(joint, "restrict", without_time)
    found = sizes(module(by_area), torch.randn(4, 6))
    assert found.keys() == {"x.0", "x.1"}
    assert all(least <= size <= most for size, (least, most, _) in zip((4, 6), found.values()))


def test_guards_are_checked_down_to_the_least_size(monkeypatch):
    finder = object.__new__(ranges.RangeFinder)
    finder.index = 0
    monkeypatch.setattr(finder, "guards_cover", lambda size, found: size >= 30, raising=False)
    found = guards.Guards([guards.Guard("s0 >= 30", (0,), "")], True)
    assert finder.last_covered(100, -1, found) == 30
    assert finder.last_covered(100, 1, found) is None and finder.last_covered(1, -1, found) is None


def leave_out(forward, example, wrong):
    """Whether the ranges of a trace at the sizes `example` leave out the sizes `wrong`, at which the module decides otherwise."""
    found = sizes(module(forward), torch.randn(example))
    return any(f"x.{dim}" not in found or not found[f"x.{dim}"][0] <= size <= found[f"x.{dim}"][1] for dim, size in enumerate(wrong)
               if size != example[dim])


def test_sizes_of_two_dimensions_that_decide_together():
    def product(self, x):
        return x * 3 if (x.shape[0] - 1) * (x.shape[1] - 3) < 0 else x * 2

    def both(self, x):
        return x * 3 if x.shape[0] > 8 and x.shape[1] > 5000 else x * 2

    def fails_early(self, x):
        if x.shape[0] > 8:
            raise ValueError("too many")
        return x * 3 if (x.shape[0] - 1) * (5000 - x.shape[1]) < 0 else x * 2

    def by_values(self, x):
        if bool(x.abs().sum() < 0):  # No guard says more behind it.
            raise ValueError("no values")
        return x * 3 if x.shape[0] * x.shape[1] > 6000 else x * 2

    def with_merged(self, x):
        if x.shape[1] != x.shape[2]:
            raise ValueError("no square")
        return x * 3 if (x.shape[0] - 1) * (5000 - x.shape[3]) < 0 else x * 2

    assert leave_out(product, (1, 3), (2, 2))
    assert leave_out(both, (4, 7), (16, 6000)) and leave_out(both, (1, 7), (16, 6000))
    assert leave_out(fails_early, (1, 7), (2, 6000))
    assert leave_out(by_values, (4, 6), (68, 134))
    assert leave_out(with_merged, (1, 1, 1, 7), (2, 1, 1, 6000))
