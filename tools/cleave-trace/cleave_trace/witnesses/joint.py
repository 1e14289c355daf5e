"""Restricts the ranges of several groups of dimensions to sizes at which trace and module agree together."""

import itertools
import random

from cleave_trace.witnesses.ranges import FIRST_MAX_GROWTH, QUICK

DRAWS = 6  # of sizes of all groups; four times as many where calls are quick
# A guard of up to so many groups is checked at all combinations of the ends of their ranges; one of more, where all are smallest and
# where all are largest.
MAX_CORNER_GROUPS = 6
SEED = 20011


def restrict(search):
    """Compares with all groups at other sizes at once, and freezes a group that does not go with others."""
    if len(search.finders) < 2:
        return
    bound_by_guards(search)
    if not search.guards.is_complete:
        bound_by_comparison(search)
    for choose in choices(search):
        sizes = search.traced()
        for index, (finder, dimension) in search.finders.items():
            allowed = finder.allowed(dimension)
            sizes[index] = allowed[choose(index, len(allowed))]
        while (outcome := search.compared(sizes)) and outcome.diverges:
            if not freeze_one(search, sizes):
                break


def choices(search):
    """Functions of a group and of how many of its sizes agree, which choose one of these: ends and middles, then drawn ones."""
    yield from (lambda group, count: 0, lambda group, count: -1, lambda group, count: count // 2)
    for one in search.finders:
        yield lambda group, count: -1 if group == one else 0
        yield lambda group, count: 0 if group == one else -1
    draw = random.Random(SEED)
    for _ in range(DRAWS if search.budget.call_seconds > QUICK else 4 * DRAWS):
        yield lambda group, count: draw.randrange(count)


def bound_by_guards(search):
    """Restricts groups until each guard of several holds at all their sizes, or trace and module agree where it does not."""
    found = [(None, guard) for guard in search.guards.found]
    for index, (finder, _) in search.finders.items():
        found += [(index, guard) for guard in finder.guards_at_larger.found] if finder.guards_at_larger else []
    for origin, guard in found:
        groups = [index for index in guard.symbols if index in search.finders]
        # A guard of one group that was found while another one was larger says something of both.
        of_own = len(groups) < 2 and origin in (None, *groups)
        if not groups or of_own or guard.is_hole or failing_corner(search, guard, groups) is None:
            continue
        for index in groups:
            finder, dimension = search.finders[index]
            dimension.max = min(dimension.max, finder.allowed(dimension)[-1])
        while (sizes := failing_corner(search, guard, groups)) is not None:
            move_inward(search, guard, groups, sizes)


def failing_corner(search, guard, groups):
    """Ends of the groups' sizes at which the guard does not hold, and trace and module are not known to agree; None if none."""
    ends = [search.finders[index][1].ends() for index in groups]
    if not all(ends):
        return None
    few = len(groups) <= MAX_CORNER_GROUPS
    for corner in itertools.product(*ends) if few else zip(*((sizes[0], sizes[-1]) for sizes in ends)):
        sizes = search.traced()
        for index, size in zip(groups, corner):
            sizes[index] = size
        if not guard.holds(sizes) and not search.agree(sizes):
            return sizes
    return None


def bound_by_comparison(search):
    """Without guards of all sizes, restricts groups until trace and module were compared where all are largest."""
    while True:
        allowed = {index: finder.allowed(dimension) for index, (finder, dimension) in search.finders.items()}
        sizes = search.traced()
        for index in allowed:
            sizes[index] = allowed[index][-1]
        is_small = search.budget.growth(sizes) <= FIRST_MAX_GROWTH and search.budget.left > 0
        if search.compared(sizes) or is_small and search.checker.at(sizes):
            return
        far = max(allowed, key=lambda index: sizes[index] / search.groups[index].traced)
        dimension = search.finders[far][1]
        dimension.max, dimension.above = max(size for size in allowed[far] if size < sizes[far]), ""


def move_inward(search, guard, groups, sizes):
    """Moves the end of one group, the farthest from its traced size, to the next size that was compared."""
    growth = {index: sizes[index] / search.groups[index].traced for index in groups}
    far = max(groups, key=lambda index: max(growth[index], 1 / growth[index]))
    finder, dimension = search.finders[far]
    outcome = search.checker.known.get(tuple(sizes))
    if outcome and outcome.diverges:
        dimension.diverges, reason = True, outcome.text
    else:
        reason = f"the module decides otherwise: {finder.named(guard)} does not hold"
    allowed, reason = finder.allowed(dimension), f"with {search.describe(sizes)} {reason}"
    if sizes[far] > dimension.traced:
        dimension.max, dimension.above = max(size for size in allowed if size < sizes[far]), reason
    else:
        dimension.min, dimension.below = min(size for size in allowed if size > sizes[far]), reason


def freeze_one(search, sizes):
    """Freezes a group without whose change trace and module agree, or else the last one; puts its size back in `sizes`."""
    text = search.checker.at(sizes).text
    changed = [index for index in sorted(search.finders, reverse=True) if sizes[index] != search.groups[index].traced]
    without = {index: [*sizes[:index], search.groups[index].traced, *sizes[index + 1:]] for index in changed}
    if not changed:
        return False
    chosen = next((index for index in changed if not search.checker.at(without[index]).diverges), changed[0])
    search.finders[chosen][1].freeze(f"with {search.describe(sizes)} {text}")
    sizes[chosen] = search.groups[chosen].traced
    return True
