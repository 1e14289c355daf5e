"""Runs the module and its trace at other sizes and with other values, and keeps what the module answers."""

import itertools
import logging
import random
import re
import time

import torch

from cleave_trace.errors import TraceError, one_line
from cleave_trace.witnesses import dimensions, divergence, guards, user_inputs, variations
from cleave_trace.witnesses.budget import Budget
from cleave_trace.witnesses.checker import DIFFERS, MODULE_FAILS, SAME, Checker, Outcome, difference, has_nan
from cleave_trace.witnesses.ranges import FIRST_MAX_GROWTH, QUICK, RangeFinder, never_runs
from cleave_trace.witnesses.witness_file import Builder, Witnesses

MAX_GROUPS = 12
MIN_SECONDS, MAX_SECONDS = 6.0, 120.0
SHORT = 1.0  # seconds
SMALL_SHARE = 0.05  # of the elements of all inputs
GUARD_SECONDS = 20.0  # of CPU time that the search for guards may take at least
SIZES_SHARE = 0.5  # of the time, which comparisons of other values leave for those of other sizes
OVERTIME_SHARE = 0.5  # of the time, which other values may take besides where sizes took theirs
JOINT, JOINT_SHARE = 6, 0.15  # draws of all sizes together, and their part of the time
ENDS_SHARE = 0.15  # that of other values at the ends of ranges
# A guard of up to so many groups is checked at all combinations of the ends of their ranges; one of more, at all-smallest and all-largest.
MAX_CORNER_GROUPS = 6
SEED = 20011


def collect(trace, dynamic=(), files=(), seconds=MIN_SECONDS):
    """The Witnesses of a tracing.Trace, within about `seconds`.

    Raises TraceError where the trace does not follow the module's values, or the options are wrong.
    """
    collector = Collector(trace, dynamic, files, seconds)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # Many small calls: several threads would wait for one another, for long on a busy machine.
    try:
        collector.run()
    except TraceError:
        raise
    except Exception as error:  # What is not shown is not claimed.
        logging.getLogger(__name__).debug("witnesses", exc_info=True)
        collector.dimensions = []
        collector.notes.append(f"witnesses: sizes and values were not all compared: {type(error).__name__}: {one_line(error)}")
    finally:
        torch.set_num_threads(threads)
        collector.close()
    return Witnesses(collector.dimensions, collector.builder.entries, collector.builder.tensors, trace.warnings,
                     collector.notes)


class Collector:
    def __init__(self, trace, dynamic, files, seconds):
        self.trace, self.calls, self.example = trace, trace.calls, trace.inputs
        self.named = dimensions.named_groups(self.example, dynamic)
        self.given = [(str(file), user_inputs.load(file, self.example)) for file in files]
        self.builder, self.notes, self.dimensions = Builder(), [], []
        # Inputs of which other values were tried, and of which some were compared.
        self.tried_values, self.compared_values = set(), set()
        self.seconds, self.guard_process = seconds, None
        self.builder.add("traced", trace.inputs, trace.expected)

    def close(self):
        if self.guard_process:
            self.guard_process.close()

    def run(self):
        if self.calls is None:
            unused = "; --dynamic and --witness are not used" if self.named or self.given else ""
            self.notes.append("witnesses: the module keeps what it computes from call to call, so that only its first "
                              f"outputs are a witness{unused}")
            return
        self.groups = self.all_groups()
        self.budget = Budget(self.seconds, self.traced(), self.trace.call_seconds)
        text = difference(self.trace.expected, self.trace.outputs)
        self.at_traced = Outcome(DIFFERS if text else SAME, text, self.trace.expected, self.example, self.trace.call_seconds)
        self.checker = Checker(self.calls, self.example, self.groups, self.at_traced)
        self.start_guards()
        self.compare_user_inputs()
        if self.trace.call_seconds < SHORT:  # A first call may take longer than others.
            self.checker.compare(self.example)
            again = self.checker.compare(self.example)
            self.at_traced.kind, self.at_traced.text = again.kind, again.text
            self.budget.call_seconds = self.at_traced.seconds = again.seconds
        if not self.at_traced.is_same:
            self.notes.append(f"witnesses: {self.at_traced.text} when both are called again, so that no more was compared")
            return
        self.budget.reserved = SIZES_SHARE * self.seconds if self.groups else 0.0
        is_quick = self.budget.call_seconds < QUICK
        self.base = self.traced() if is_quick else self.small_sizes()
        example = self.checker.at(self.base).inputs
        where = "" if self.base == self.traced() else f" at {self.describe(self.base)}"
        later = self.compare_values(example, list(variations.KINDS), self.base, where)
        self.apply_guards()
        self.budget.reserved = (ENDS_SHARE + (JOINT_SHARE if len(self.groups) > 1 else 0.0)) * self.seconds
        self.find_ranges()
        self.budget.reserved = ENDS_SHARE * self.seconds
        self.check_joint()
        self.budget.reserved = 0.0
        self.compare_values_at_ends()
        self.freeze_for_user_inputs()
        self.add_sizes()
        self.budget.end += OVERTIME_SHARE * self.seconds
        if where:
            self.compare_values(self.example, ["drawn"], self.traced(), "")
        if late := self.compare_values(example, later, self.base, where):
            self.notes.append(f"witnesses: there was no time to compare values {', '.join(late)}")
        self.report()

    # Groups and guards -----------------------------------------------------------------------------------------------

    def traced(self):
        return [group.traced for group in self.groups]

    def all_groups(self):
        taken = {pair for group in self.named for pair in group.dims}
        groups = list(self.named)
        for group in dimensions.default_groups(self.example):
            dims = tuple(pair for pair in group.dims if pair not in taken)
            if dims:
                name = group.name if all(group.name != other.name for other in groups) else f"{dims[0][0]}.{dims[0][1]}"
                groups.append(dimensions.Group(name, dims, group.traced))
        if len(self.named) > MAX_GROUPS:
            raise TraceError(f"--dynamic: {len(self.named)} names, expected at most {MAX_GROUPS}; leave some out")
        return groups[:MAX_GROUPS]

    def start_guards(self):
        self.guards = guards.Guards([], self.calls.script is None)
        if self.calls.script is not None and self.groups:
            self.guard_process = guards.GuardProcess(max(GUARD_SECONDS, self.seconds), self.calls, self.example, self.groups,
                                              self.traced())

    def apply_guards(self):
        """Waits for the guards and merges the groups that they say are equal."""
        if self.guard_process is None:
            return
        self.guards = self.guard_process.result()
        pairs = [guard.symbols for guard in self.guards.found if re.fullmatch(r"Eq\(s\d+, s\d+\)", guard.text)]
        merged = list(range(len(self.groups)))
        for first, second in pairs:
            one, other = self.groups[first], self.groups[second]
            # Two names are two sizes: where the module branches on whether they are equal, each is looked at alone.
            if one.traced == other.traced and not (one.is_named and other.is_named):
                merged = [merged[first] if index == merged[second] else index for index in merged]
        self.merge_groups(merged)

    def merge_groups(self, merged):
        """`merged[i]` is the index of the group that group i is merged into, its own for those that stay."""
        remaining = {}
        for group, index in zip(self.groups, merged):
            remaining[index] = dimensions.merged(remaining[index], group) if index in remaining else group
        if len(remaining) == len(self.groups):
            return
        new_index = {index: number for number, index in enumerate(remaining)}
        self.guards = self.guards.renumbered([new_index[index] for index in merged])
        sizes = {index: {size for size, other in zip(self.base, merged) if other == index} for index in remaining}
        self.base = [sizes[index].pop() if len(sizes[index]) == 1 else group.traced for index, group in remaining.items()]
        self.groups = list(remaining.values())
        self.checker = Checker(self.calls, self.example, self.groups, self.at_traced)
        self.budget.traced = self.traced()

    # Values ----------------------------------------------------------------------------------------------------------

    def compare_values(self, example, kinds, sizes, where):
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
                if not self.budget.take(sizes):
                    late.append(kind)
                    break
                outcome = self.compare_changed(example, inputs)
                if only is None:
                    left = variations.subsets(example) if outcome is None else variations.single_inputs(example, inputs)
                if outcome is None:
                    continue
                if outcome.diverges and not divergence.is_tie(self.calls, inputs, outcome.outputs):
                    raise self.value_error(example, kind, only, inputs, outcome)
                if outcome.is_same:
                    self.builder.add("".join((kind, f" {'+'.join(only)}" if only else "", where)), inputs, outcome.outputs)
        return late

    def compare_changed(self, example, inputs):
        """The outcome where values of `example` have become `inputs`; None where the module does not take them."""
        changed = {path for path, tensor in inputs.items() if tensor is not example[path]}
        self.tried_values |= changed
        outcome = self.checker.compare(inputs)
        if outcome.kind == MODULE_FAILS or has_nan(outcome.outputs) and not has_nan(self.trace.expected):
            return None
        self.compared_values |= changed
        return outcome

    def compare_values_at_ends(self):
        """Changes values at the smallest and largest sizes that agree; restricts groups until they decide nothing there.

        A module may look at values where a size is large, or not one, alone.
        """
        for sizes in self.ends():
            for kind in variations.KINDS:
                while sizes != self.traced() and (outcome := self.changed_at(sizes, kind)) and outcome.diverges:
                    self.restrict_for_values(sizes, kind, outcome)

    def ends(self):
        """Sizes with each group at its largest and at its smallest; then with all at such, as far as they were compared."""
        for end in (-1, 0):
            for index, (finder, dimension) in self.finders.items():
                quick = [size for size in finder.allowed(dimension) if self.is_quick_enough(finder.sizes(size))]
                if quick:
                    yield finder.sizes(quick[end])
        known = [list(sizes) for sizes, outcome in self.checker.known.items() if outcome.is_same]
        for choose in (max, min):
            yield choose([sizes for sizes in known if self.allows(sizes) and self.is_quick_enough(sizes)], key=self.budget.growth,
                         default=self.traced())

    def is_quick_enough(self, sizes):
        """For some comparisons."""
        return 6 * self.budget.seconds_of(sizes) < self.budget.left

    def allows(self, sizes):
        others = [size for index, size in enumerate(sizes) if index not in self.finders and size != self.groups[index].traced]
        return not others and all(dimension.allows(sizes[index]) for index, (_, dimension) in self.finders.items())

    def changed_at(self, sizes, kind):
        """The outcome with values of `kind` at `sizes`, of all inputs or of those with which the module runs; None if there is none."""
        example = self.checker.at(sizes).inputs
        for only in [None, *variations.subsets(example)]:
            inputs = variations.changed(example, kind, SEED, only)
            if inputs is None or not self.budget.take(sizes):
                continue
            outcome = self.compare_changed(example, inputs)
            if outcome is not None and not (outcome.diverges and divergence.is_tie(self.calls, inputs, outcome.outputs)):
                return outcome
        return None

    def restrict_for_values(self, sizes, kind, outcome):
        """Moves the end of one group inward to where trace and module agree, of the sizes that were compared; puts it in `sizes`.

        The group is one without whose change they agree, or else the last.
        """
        changed = [index for index in sorted(self.finders, reverse=True) if sizes[index] != self.groups[index].traced]

        def agrees(index, size):
            at = [*sizes[:index], size, *sizes[index + 1:]]
            found = self.changed_at(at, kind) if self.agree(at) else None
            return found is not None and not found.diverges

        chosen = next((index for index in changed if agrees(index, self.groups[index].traced)), changed[0])
        finder, dimension = self.finders[chosen]
        end, traced = sizes[chosen], dimension.traced
        between = [size for size in finder.allowed(dimension) if min(end, traced) <= size <= max(end, traced)]
        between.sort(key=lambda size: abs(size - traced))
        good, bad = 0, len(between) - 1
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if agrees(chosen, between[middle]) else (good, middle)
        reason = f"with {self.describe(sizes)} and other values ({kind}) {outcome.text}"
        dimension.diverges, sizes[chosen] = True, between[good]
        if end > traced:
            dimension.max, dimension.above = between[good], reason
        else:
            dimension.min, dimension.below = between[good], reason

    def value_error(self, example, kind, only, inputs, outcome):
        if only is None:
            for path in list(example)[:variations.MAX_ALONE]:
                alone = variations.changed(example, kind, SEED, (path,))
                if len(example) == 1 or alone is not None and self.checker.compare(alone).diverges:
                    only = (path,)
                    break
        where = divergence.where(self.calls, inputs) or "module"
        what = f"input {' and '.join(only)} change" if only else "inputs change"
        return TraceError(f"{where}: trace and module return different outputs when values of {what} ({kind}): "
                          f"{outcome.text}; script the submodule that chooses by value, or pass --no-witnesses")

    # The user's own inputs ---------------------------------------------------------------------------------------------

    def compare_user_inputs(self):
        self.differing = []
        for name, inputs in self.given:
            outcome = self.checker.compare(inputs)
            if outcome.kind == MODULE_FAILS:
                raise TraceError(f"--witness {name}: {outcome.text}, expected inputs that the module takes; correct them")
            if outcome.is_same:
                self.builder.add(name, inputs, outcome.outputs)
            elif all(inputs[path].shape == tensor.shape for path, tensor in self.example.items()):
                where = divergence.where(self.calls, inputs) or "module"
                raise TraceError(f"{where}: trace and module return different outputs on --witness {name}: {outcome.text}; "
                                 "script the submodule that chooses by value, or pass --no-witnesses")
            else:
                self.differing.append((name, inputs, outcome))

    def freeze_for_user_inputs(self):
        """Freezes what would let in inputs of the user's own on which trace and module return different outputs."""
        for name, inputs, outcome in self.differing:
            other = [(dimension, inputs[dimension.dims[0][0]].shape[dimension.dims[0][1]]) for dimension in self.dimensions]
            if all(dimension.allows(size) for dimension, size in other):
                for dimension, size in other:
                    if size != dimension.traced:
                        dimension.freeze(f"with the inputs of {name} {outcome.text}")
            where = divergence.where(self.calls, inputs)
            self.notes.append(f"--witness {name}: {outcome.text}" + (f"; they diverge in module {where}" if where else ""))

    # Sizes -----------------------------------------------------------------------------------------------------------

    def small_sizes(self):
        """Small sizes of all groups at which trace and module agree; the example's of those of which none is found."""
        found = self.traced()
        elements = sum(tensor.numel() for tensor in self.example.values())
        for index, group in enumerate(self.groups):
            if sum(self.example[path].numel() for path in {path for path, _ in group.dims}) < SMALL_SHARE * elements:
                continue  # It would save no time, and leave few values to change.
            for size in (1, 2) if index == 0 else (9, 8, 16, 1):
                sizes = [size if position == index else other for position, other in enumerate(found)]
                if size >= group.traced or not self.budget.take(sizes):
                    continue
                outcome = self.checker.at(sizes)
                self.budget.note(sizes, outcome)
                if outcome.is_same:
                    found = sizes
                    break
        return found

    def finder(self, index):
        base = list(self.base)
        base[index] = self.groups[index].traced
        return RangeFinder(self.checker, self.budget, self.guards, self.guards_at, self.tables, index, base)

    def guards_at(self, sizes):
        """The guards of a call at other sizes than the example's. Its time, an import of torch's tracer, is none of comparisons."""
        begin = time.thread_time()
        process = guards.GuardProcess(max(GUARD_SECONDS, self.seconds), self.calls, self.example, self.groups, sizes)
        self.budget.end += time.thread_time() - begin
        return process.result()

    def find_ranges(self):
        self.tables = guards.table_sizes(self.calls.module)
        self.finders, self.unchanged, index = {}, [], 0
        while index < len(self.groups):
            finder = self.finder(index)
            if finder.first_look() or not never_runs(finder) or not self.merge_with_others(index):
                index += 1
        for index in range(len(self.groups)):
            self.find_range(index, self.finder(index))

    def merge_with_others(self, index):
        """Merges the group with a later one of its size, or all of these, where the module then runs at other sizes."""
        group = self.groups[index]
        same = [other for other in range(index + 1, len(self.groups)) if self.groups[other].traced == group.traced]
        sets = [{index, other} for other in same] + ([{index, *same}] if len(same) > 1 else [])
        for chosen in sets:
            before = self.groups, self.guards, self.checker, self.base
            self.merge_groups([min(chosen) if other in chosen else other for other in range(len(self.groups))])
            if self.finder(index).first_look():
                return True
            self.groups, self.guards, self.checker, self.base = before
            self.budget.traced = self.traced()
        return False

    def find_range(self, index, finder):
        group = self.groups[index]
        if not finder.first_look():
            if group.is_named:
                self.dimensions.append(finder.frozen())
                self.dimensions[-1].name = group.name
            self.unchanged.append((group, finder))
            return
        dimension = finder.find()
        dimension.name = group.name
        diverging = finder.nearest_diverging_size()
        if diverging is not None:
            sizes = finder.sizes(diverging)
            flipped = [guard.where for guard in finder.failing_guards(sizes) if guard.where]
            dimension.where = flipped[0] if flipped else divergence.where(self.calls, self.checker.at(sizes).inputs)
        self.finders[index] = (finder, dimension)
        self.dimensions.append(dimension)

    def check_joint(self):
        """Compares with all groups at other sizes at once, and freezes a group that does not go with others."""
        if len(self.finders) < 2:
            return
        self.bound_by_guards()
        if not self.guards.is_complete:
            self.bound_by_comparison()
        for choose in self.joint_choices():
            sizes = self.traced()
            for index, (finder, dimension) in self.finders.items():
                allowed = finder.allowed(dimension)
                sizes[index] = allowed[choose(index, len(allowed))]
            while (outcome := self.compared(sizes)) and outcome.diverges:
                if not self.freeze_one(sizes):
                    break

    def joint_choices(self):
        """Functions of a group and of how many of its sizes agree, which choose one of these: ends and middles, then drawn ones."""
        yield from (lambda group, count: 0, lambda group, count: -1, lambda group, count: count // 2)
        for one in self.finders:
            yield lambda group, count: -1 if group == one else 0
            yield lambda group, count: 0 if group == one else -1
        draw = random.Random(SEED)
        for _ in range(JOINT if self.budget.call_seconds > QUICK else 4 * JOINT):
            yield lambda group, count: draw.randrange(count)

    def bound_by_guards(self):
        """Restricts groups until each guard of several holds at all their sizes, or trace and module agree where it does not."""
        found = [(None, guard) for guard in self.guards.found]
        for index, (finder, _) in self.finders.items():
            found += [(index, guard) for guard in finder.guards_at_larger.found] if finder.guards_at_larger else []
        for origin, guard in found:
            groups = [index for index in guard.symbols if index in self.finders]
            # A guard of one group that was found while another one was larger says something of both.
            of_own = len(groups) < 2 and origin in (None, *groups)
            if not groups or of_own or guard.is_hole or self.failing_corner(guard, groups) is None:
                continue
            for index in groups:
                finder, dimension = self.finders[index]
                dimension.max = min(dimension.max, finder.allowed(dimension)[-1])
            while (sizes := self.failing_corner(guard, groups)) is not None:
                self.move_inward(guard, groups, sizes)

    def failing_corner(self, guard, groups):
        """Ends of the groups' sizes at which the guard does not hold, and trace and module are not known to agree; None if none."""
        ends = [self.finders[index][1].ends() for index in groups]
        if not all(ends):
            return None
        few = len(groups) <= MAX_CORNER_GROUPS
        for corner in itertools.product(*ends) if few else zip(*((sizes[0], sizes[-1]) for sizes in ends)):
            sizes = self.traced()
            for index, size in zip(groups, corner):
                sizes[index] = size
            if not guard.holds(sizes) and not self.agree(sizes):
                return sizes
        return None

    def agree(self, sizes):
        """Whether trace and module are known not to diverge at `sizes`, which are compared if there is time."""
        outcome = self.compared(sizes)
        return outcome is not None and not outcome.diverges

    def compared(self, sizes):
        """The Outcome at `sizes`, which are compared now if there is time; None if there is not."""
        is_known = tuple(sizes) in self.checker.known or self.budget.take(sizes)
        return self.checker.at(sizes) if is_known else None

    def bound_by_comparison(self):
        """Without guards of all sizes, restricts groups until trace and module were compared where all are largest."""
        while True:
            allowed = {index: finder.allowed(dimension) for index, (finder, dimension) in self.finders.items()}
            sizes = self.traced()
            for index in allowed:
                sizes[index] = allowed[index][-1]
            is_small = self.budget.growth(sizes) <= FIRST_MAX_GROWTH and self.budget.left > 0
            if self.compared(sizes) or is_small and self.checker.at(sizes):
                return
            far = max(allowed, key=lambda index: sizes[index] / self.groups[index].traced)
            dimension = self.finders[far][1]
            dimension.max, dimension.above = max(size for size in allowed[far] if size < sizes[far]), ""

    def move_inward(self, guard, groups, sizes):
        """Moves the end of one group, the farthest from its traced size, to the next size that was compared."""
        far = max(groups, key=lambda index: max(sizes[index] / self.groups[index].traced, self.groups[index].traced / sizes[index]))
        finder, dimension = self.finders[far]
        outcome = self.checker.known.get(tuple(sizes))
        if outcome and outcome.diverges:
            dimension.diverges, reason = True, outcome.text
        else:
            reason = f"the module decides otherwise: {finder.named(guard)} does not hold"
        allowed, reason = finder.allowed(dimension), f"with {self.describe(sizes)} {reason}"
        if sizes[far] > dimension.traced:
            dimension.max, dimension.above = max(size for size in allowed if size < sizes[far]), reason
        else:
            dimension.min, dimension.below = min(size for size in allowed if size > sizes[far]), reason

    def freeze_one(self, sizes):
        """Freezes a group without whose change trace and module agree, or else the last one; puts its size back in `sizes`."""
        text = self.checker.at(sizes).text
        changed = [index for index in sorted(self.finders, reverse=True) if sizes[index] != self.groups[index].traced]
        without = {index: [*sizes[:index], self.groups[index].traced, *sizes[index + 1:]] for index in changed}
        chosen = next((index for index in changed if not self.checker.at(without[index]).diverges), changed[0] if changed else None)
        if chosen is None:
            return False
        self.finders[chosen][1].freeze(f"with {self.describe(sizes)} {text}")
        sizes[chosen] = self.groups[chosen].traced
        return True

    # What is written -------------------------------------------------------------------------------------------------

    def describe(self, sizes):
        return ",".join(f"{group.name}={size}" for group, size in zip(self.groups, sizes))

    def add_sizes(self):
        """Witnesses at other sizes: for each group, the smallest, the largest and one between them, of those that are not too large."""
        for index, (finder, dimension) in self.finders.items():
            most = 16 * dimension.traced + 64  # The file and verifying stay small.
            allowed = [size for size in finder.allowed(dimension) if size != dimension.traced and size <= most]
            for size in dict.fromkeys([*allowed[len(allowed) // 2:][:1], *allowed[-1:], *allowed[:1]]):
                outcome = finder.outcome(size)
                changed = [f"{group.name}={other}" for group, other in zip(finder.checker.groups, finder.sizes(size))
                           if other != group.traced]
                self.builder.add(",".join(changed), outcome.inputs, outcome.outputs)

    def report(self):
        asked = {group.name for group in self.named}
        for dimension in self.dimensions:
            given = [reason for reason in (dimension.below, dimension.above, dimension.between) if reason]
            reasons = sorted((reason for reason in given if "the trace" in reason), key=lambda reason: "the trace fails" in reason)
            what = f"stays {dimension.traced}" if dimension.min == dimension.max else dimension.range()
            if dimension.diverges and reasons:
                place = f"; they diverge in module {dimension.where}" if dimension.where else ""
                self.notes.append(f"{dimension.name} {what}: {reasons[0]}{place}")
            elif dimension.name in asked and dimension.is_limited and dimension.min < dimension.max:
                self.notes.append(f"{dimension.name} {what}" + (f": {given[0]}" if given else ", the largest that was compared"))
        for group, finder in self.unchanged:
            reason = next((finder.reason(size) for size in sorted(finder.bad, reverse=True)), "")
            if reason and group.is_named:
                self.notes.append(f"{group.name} stays {group.traced}: {reason}")
        if left := [path for path in self.example if path in self.tried_values - self.compared_values]:
            self.notes.append(f"values of {', '.join(left)} were not compared: the module fails with each change that was tried; give "
                              "others with --witness")
        if not self.finders and self.unchanged and not self.named:
            group, finder = self.unchanged[0]
            reason = next((finder.reason(size) for size in sorted(finder.bad, reverse=True)), "")
            self.notes.append(f"no dimension of the inputs can be changed: {group.name} stays {group.traced}: {reason}")
