"""What is compared, and what is known so far."""

from cleave_trace.witnesses import dimensions
from cleave_trace.witnesses.checker import Checker


class Search:
    """The groups of dimensions that vary, the guards on their sizes, the outcomes of comparisons, and the time that is left.

    A list of sizes has one for each group.
    """

    def __init__(self, calls, example, groups, guards, at_traced, budget):
        """`at_traced` is the Outcome at the example's sizes."""
        self.calls, self.example, self.groups, self.guards = calls, example, groups, guards
        self.at_traced, self.budget = at_traced, budget
        self.checker = Checker(calls, example, groups, at_traced)
        self.base = self.traced()  # at which values are changed, and where groups stay while the range of one is searched
        self.finders = {}  # by a group's index, the RangeFinder and the Dimension of those that have other sizes

    def traced(self):
        return [group.traced for group in self.groups]

    def describe(self, sizes):
        return ",".join(f"{group.name}={size}" for group, size in zip(self.groups, sizes))

    def compared(self, sizes):
        """The Outcome at `sizes`, which are compared now if there is time; None if there is not."""
        is_known = tuple(sizes) in self.checker.known or self.budget.allows(sizes)
        return self.checker.at(sizes) if is_known else None

    def agree(self, sizes):
        """Whether trace and module are known not to diverge at `sizes`, which are compared if there is time."""
        outcome = self.compared(sizes)
        return outcome is not None and not outcome.diverges

    def merged(self, into):
        """This search with group i merged into group `into[i]`, which is i for those that stay."""
        remaining = {}
        for group, index in zip(self.groups, into):
            remaining[index] = dimensions.merged(remaining[index], group) if index in remaining else group
        new_index = {index: number for number, index in enumerate(remaining)}
        guards = self.guards.renumbered([new_index[index] for index in into])
        found = Search(self.calls, self.example, list(remaining.values()), guards, self.at_traced, self.budget)
        sizes = {index: {size for size, other in zip(self.base, into) if other == index} for index in remaining}
        found.base = [sizes[index].pop() if len(sizes[index]) == 1 else group.traced for index, group in remaining.items()]
        return found
