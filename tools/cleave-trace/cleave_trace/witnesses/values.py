"""Compares trace and module with other values than the example's."""

from cleave_trace.errors import TraceError
from cleave_trace.witnesses import divergence, variations
from cleave_trace.witnesses.checker import MODULE_FAILS, has_nan

SEED = 20011


class ValueChanges:
    """Changes values of inputs, and keeps what the module answered in `builder`."""

    def __init__(self, search, builder):
        self.search, self.builder = search, builder
        self.tried, self.compared = set(), set()  # inputs of which other values were tried, and with which the module ran

    def compare(self, example, kinds, sizes, where):
        """Changes values of all inputs, or of one at a time where the module does not run otherwise.

        `sizes` are those of `example`. Returns the kinds for which no time was left.
        """
        late = []
        for kind in kinds:
            # All inputs; where the module does not take that, some; of numbers and flags, which may decide together, each alone, too.
            left = [None]
            while left:
                only = left.pop(0)
                inputs = variations.changed(example, kind, SEED, only)
                if inputs is None:
                    left += variations.subsets(example) if only is None else []
                    continue
                if not self.search.budget.allows(sizes):
                    late.append(kind)
                    break
                outcome = self.compare_changed(example, inputs)
                if only is None:
                    left = variations.subsets(example) if outcome is None else variations.single_inputs(example, inputs)
                if outcome is None:
                    continue
                if outcome.diverges and not divergence.is_tie(self.search.calls, inputs, outcome.outputs):
                    raise self.value_error(example, kind, only, inputs, outcome)
                if outcome.is_same:
                    self.builder.add("".join((kind, f" {'+'.join(only)}" if only else "", where)), inputs, outcome.outputs)
        return late

    def compare_changed(self, example, inputs):
        """The outcome where values of `example` have become `inputs`; None where the module does not take them."""
        changed = {path for path, tensor in inputs.items() if tensor is not example[path]}
        self.tried |= changed
        outcome = self.search.checker.compare(inputs)
        if outcome.kind == MODULE_FAILS or has_nan(outcome.outputs) and not has_nan(self.search.at_traced.outputs):
            return None
        self.compared |= changed
        return outcome

    def compare_at_ends(self):
        """Changes values at the smallest and largest sizes that agree; restricts groups until they decide nothing there.

        A module may look at values where a size is large, or not one, alone.
        """
        for sizes in self.ends():
            for kind in variations.KINDS:
                while sizes != self.search.traced() and (outcome := self.changed_at(sizes, kind)) and outcome.diverges:
                    self.restrict(sizes, kind, outcome)

    def ends(self):
        """Sizes with each group at its largest and at its smallest; then with all at such, as far as they were compared."""
        for end in (-1, 0):
            for index, (finder, dimension) in self.search.finders.items():
                quick = [size for size in finder.allowed(dimension) if self.is_quick_enough(finder.sizes(size))]
                if quick:
                    yield finder.sizes(quick[end])
        known = [list(sizes) for sizes, outcome in self.search.checker.known.items() if outcome.is_same]
        for choose in (max, min):
            allowed = [sizes for sizes in known if self.allows(sizes) and self.is_quick_enough(sizes)]
            yield choose(allowed, key=self.search.budget.growth, default=self.search.traced())

    def is_quick_enough(self, sizes):
        """For some comparisons."""
        return 6 * self.search.budget.seconds_of(sizes) < self.search.budget.left

    def allows(self, sizes):
        finders, traced = self.search.finders, self.search.traced()
        return all(finders[index][1].allows(size) if index in finders else size == traced[index] for index, size in enumerate(sizes))

    def changed_at(self, sizes, kind):
        """The outcome with values of `kind` at `sizes`, of all inputs or of those with which the module runs; None if there is none."""
        example = self.search.checker.at(sizes).inputs
        for only in [None, *variations.subsets(example)]:
            inputs = variations.changed(example, kind, SEED, only)
            if inputs is None or not self.search.budget.allows(sizes):
                continue
            outcome = self.compare_changed(example, inputs)
            if outcome is not None and not (outcome.diverges and divergence.is_tie(self.search.calls, inputs, outcome.outputs)):
                return outcome
        return None

    def restrict(self, sizes, kind, outcome):
        """Moves the end of one group inward to where trace and module agree, of the sizes that were compared; puts it in `sizes`.

        The group is one without whose change they agree, or else the last.
        """
        base = self.search.traced()
        changed = [index for index in sorted(self.search.finders, reverse=True) if sizes[index] != base[index]]

        def agrees(index, size):
            at = [*sizes[:index], size, *sizes[index + 1:]]
            found = self.changed_at(at, kind) if self.search.agree(at) else None
            return found is not None and not found.diverges

        chosen = next((index for index in changed if agrees(index, base[index])), changed[0])
        finder, dimension = self.search.finders[chosen]
        end, traced = sizes[chosen], dimension.traced
        between = [size for size in finder.allowed(dimension) if min(end, traced) <= size <= max(end, traced)]
        between.sort(key=lambda size: abs(size - traced))
        inner, outer = 0, len(between) - 1
        while outer - inner > 1:
            middle = (inner + outer) // 2
            inner, outer = (middle, outer) if agrees(chosen, between[middle]) else (inner, middle)
        reason = f"with {self.search.describe(sizes)} and other values ({kind}) {outcome.text}"
        dimension.diverges, sizes[chosen] = True, between[inner]
        if end > traced:
            dimension.max, dimension.above = between[inner], reason
        else:
            dimension.min, dimension.below = between[inner], reason

    def value_error(self, example, kind, only, inputs, outcome):
        if only is None:
            for path in list(example)[:variations.MAX_ALONE]:
                alone = variations.changed(example, kind, SEED, (path,))
                if len(example) == 1 or alone is not None and self.search.checker.compare(alone).diverges:
                    only = (path,)
                    break
        where = divergence.where(self.search.calls, inputs) or "module"
        what = f"input {' and '.join(only)} change" if only else "inputs change"
        return TraceError(f"{where}: trace and module return different outputs when values of {what} ({kind}): "
                          f"{outcome.text}; script the submodule that chooses by value, or pass --no-witnesses")
