"""What a module decides by values, and by sizes that no guard shows, is noticed."""

import pytest
import torch

from cleave_trace.errors import TraceError
from cleave_trace.witnesses import variations
from traces import module, sizes, witnesses

X = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
X = X - X.mean() - 0.05  # Its mean is negative.
ONES, ZEROS = torch.ones(2, 8), torch.zeros(2, 8)


def masks_if_any(self, x, mask):
    return (x.masked_fill(mask[..., None], 0) if mask.any() else x).mean(1)


def flag(self, x, on):
    return x * 2 if on else x * 3


def weights_if_zero(self, x, mask):
    return (x * mask[..., None] if (mask == 0).any() else x).cumsum(1)


def adds_if_any(self, x, first):
    return x.cumsum(1) + first[:, None] if first.any() else x.cumsum(1)


def rolls(self, x, offset):
    return x.roll(int(offset[0]), 1)


def more_than(least):
    def decide(self, x, numbers):
        return x * 2 if (numbers > least).any() else x.sin()

    return decide


def crops_to_first(self, x, lengths):
    return x[:, :int(lengths[0])].sum(1)


def crops_to_last_mask(self, x, mask):
    return x[:, :int(mask[-1].sum())].sum(1)


def half_hidden(self, x, mask):
    return x.cumsum(1) if 2 * mask.sum() <= mask.numel() else x.sin()


def sample_hidden(self, x, mask):
    return x.sin() if not mask.any(1).all() else x.cos()


def sign(self, x, number):
    return x * 2 if number >= 0 else x * 3


@pytest.mark.parametrize("decide", [lambda x: x / 255 if x.max() > 1.5 else x, lambda x: (x + 1) / 2 if x.min() < 0 else x])
def test_a_decision_by_the_range_of_an_image_is_refused(decide):
    with pytest.raises(TraceError, match="trace and module return different outputs when values of input x change"):
        witnesses(module(lambda self, x: decide(x)), torch.rand(2, 3, 8, 8))


def last_step(self, x, time):
    return x.sin() if (time == 0).all() else x.cos()


def masks_if_unlike(self, x, lengths):
    if int(lengths.min()) == int(lengths.max()):
        return x.sin()
    return x * (torch.arange(x.shape[1]) < lengths[:, None])[..., None]


def task(self, x, number):
    return x.cumsum(1) if number == 3 else x.sin()


@pytest.mark.parametrize("forward, x, other", [
    (task, X, torch.tensor(1)), (last_step, X, torch.full((2,), 500)), (last_step, X, torch.tensor(500)),
    (masks_if_any, X, ZEROS.bool()), (flag, X, torch.tensor(True)), (flag, X, torch.tensor([True])), (weights_if_zero, X, ONES),
    (adds_if_any, X, torch.zeros(2, 4)), (rolls, X, torch.zeros(2, dtype=torch.long)), (more_than(0), X, ZEROS.long()),
    (more_than(1), X, torch.ones(2, dtype=torch.long)), (more_than(3), X, 3 * ONES.long()), (more_than(-100), X, torch.full((2,), -100)),
    (masks_if_unlike, X, torch.tensor([2, 7])), (crops_to_first, X[:1], torch.tensor([8])),
    (crops_to_last_mask, X, ONES.long()), (half_hidden, X, ONES.long()),
    (sample_hidden, X, ONES.bool()), (sign, X, torch.tensor(0.0))])
def test_a_decision_by_values_is_refused(forward, x, other):
    with pytest.raises(TraceError, match="trace and module return different outputs when"):
        witnesses(module(forward), x, other)


@pytest.mark.parametrize("first, second", [(False, False), (8, 8)])
def test_numbers_that_decide_together(first, second):
    def differ(self, x, a, b):
        return x * 2 if a != b else x * 3

    with pytest.raises(TraceError, match="trace and module return different outputs when values of input [ab] change"):
        witnesses(module(differ), X, torch.tensor(first), torch.tensor(second))


@pytest.mark.parametrize("lengths", [torch.tensor([8, 8]), torch.tensor([0, 4, 8])])
def test_lengths_follow_their_size(lengths):
    def scaled(self, x, lengths):
        return (x * 2 if lengths.max() > 20 else x * 3) + lengths.sum()

    # Lengths that are all equal are raised by one, too.
    assert sizes(module(scaled), X, lengths)["x.1"] == (1, 19 if lengths.min() else 20, 1)


def test_values_that_decide_at_large_sizes_alone():
    def by_mean(self, x):
        return x * 3 if x.shape[1] > 10 and x.mean() > 0 else x * 2

    _, groups = witnesses(module(by_mean), X)
    assert (groups["x.1"].min, groups["x.1"].max) == (1, 10)


def test_values_that_decide_in_batches_of_several_alone():
    def masks(self, x, mask):
        return (x * mask[..., None] if x.shape[0] > 1 and not mask.all() else x).cumsum(1)

    found, groups = witnesses(module(masks), X[:1], ONES[:1].long())
    assert (groups["x.0"].min, groups["x.0"].max) == (1, 1)
    assert [note for note in found.notes if note.startswith("batch stays 1: with batch=") and "and other values (" in note]


def test_positions_count_on_at_larger_sizes():
    """A table for the largest position of the example is too small then."""
    def tabled(self, x, positions):
        return x + torch.arange(int(positions.max()) + 1).sin()[positions][..., None]

    assert sizes(module(tabled), X, torch.arange(8).expand(2, 8).contiguous())["x.1"] == (1, 8, 1)


def test_values_that_the_module_does_not_take_are_said():
    def segments(self, x, ends):
        ends = ends.tolist()
        assert ends[0] == 0 and ends[-1] == len(x) and ends == sorted(set(ends))
        return torch.stack([x[begin:end].mean(0) for begin, end in zip(ends, ends[1:])])

    with pytest.raises(TraceError, match="values of input ends change .segment ends moved."):
        witnesses(module(segments), torch.randn(8, 4), torch.tensor([0, 4, 8]))
    found, _ = witnesses(module(segments), torch.randn(2, 4), torch.tensor([0, 1, 2]))
    assert [note for note in found.notes if note.startswith("values of ends were not compared: the module fails")]


@pytest.mark.parametrize("size", [[2, 1, 8], [1, 4, 4]])
def test_heights_and_widths_are_changed_together(size):
    """Only where their product stays and both are even, the module runs."""
    def grid(self, x, sizes):
        frames, height, width = sizes[0].tolist()
        assert frames == size[0] and height * width == 16 // frames and (frames == 2 or height % 2 == width % 2 == 0)
        return x.reshape(frames, height, width, -1).cumsum(1).flatten()

    with pytest.raises(TraceError, match="values of input sizes change .(last two swapped|last two reshaped)."):
        witnesses(module(grid), torch.randn(16, 4), torch.tensor([size]))


def test_lengths_without_padding_are_lowered():
    """Their maximum would be frozen otherwise, as all that is drawn between equal numbers is equal."""
    def crop(self, x, lengths):
        return x[:, :int(lengths.max())] * 2

    with pytest.raises(TraceError, match="values of input lengths change .lengths shortened."):
        witnesses(module(crop), torch.randn(3, 5, 4), torch.tensor([5, 5, 5]))
    lengths = {"lengths": torch.tensor([5, 5, 5])}
    assert variations.changed(lengths, "lengths shortened", 0)["lengths"].tolist() == [4, 4, 3]
    assert variations.changed({"lengths": torch.tensor([7])}, "lengths shortened", 0)["lengths"].tolist() == [6]
    for other in ([5, 4], [1, 1], [0, 0]):
        assert variations.changed({"lengths": torch.tensor(other)}, "lengths shortened", 0) is None


def test_ids_stay_in_the_range_of_the_example():
    ids = torch.randint(3, 9, (4, 6))
    for kind in variations.KINDS:
        found = variations.changed({"ids": ids}, kind, 0)
        assert found is None or 3 <= found["ids"].min() and found["ids"].max() <= 8, kind


def test_a_mask_keeps_its_kind():
    mask = torch.ones(2, 6, dtype=torch.long)
    assert variations.changed({"m": mask}, "reflected", 0) is None
    assert variations.changed({"m": mask}, "end hidden", 0)["m"].tolist() == [[1, 1, 1, 1, 0, 0], [1] * 6]


# Sizes that torch's symbols hide ----------------------------------------------------------------------------------------


def by_type(self, x):
    return x.sin() * 2 if isinstance(x.shape[1], int) and x.shape[1] > 600 else x.sin()


def by_digits(self, x):
    return x.sin() * 2 if len(f"{x.shape[1]}") > 2 else x.sin()


@pytest.mark.parametrize("forward, largest", [(by_type, 600), (by_digits, 99)])
def test_large_sizes_are_compared(forward, largest):
    assert sizes(module(forward), X)["x.1"] == (1, largest, 1)


def test_an_operator_that_needs_values_ends_guards():
    """Also where the module catches what torch raises."""
    def counts(self, x):
        try:
            count = int(torch.ones(x.shape[1]).sum())
        except Exception:
            count = 1
        return x.sin() if count < 5000 else x.cos()

    assert witnesses(module(counts), X)[1]["x.1"].max < 5000


def test_a_size_as_text_is_no_state():
    with pytest.raises(TraceError, match="output: the trace differs from the module by"):
        witnesses(module(lambda self, x: x * len(str(x.shape[1]))), X)
