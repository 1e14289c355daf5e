"""Runs the module and its trace at other sizes and with other values, and keeps what the module answers."""

import logging
import re
import time

import torch

from cleave_trace.errors import TraceError, one_line
from cleave_trace.witnesses import dimensions, divergence, guards, joint, user_inputs, variations
from cleave_trace.witnesses.budget import Budget
from cleave_trace.witnesses.checker import DIFFERS, MODULE_FAILS, SAME, Outcome, difference
from cleave_trace.witnesses.ranges import QUICK, RangeFinder, never_runs
from cleave_trace.witnesses.search import Search
from cleave_trace.witnesses.values import ValueChanges
from cleave_trace.witnesses.witness_file import Builder, Witnesses

MAX_GROUPS = 12
MIN_SECONDS, MAX_SECONDS = 6.0, 120.0
SHORT = 1.0  # seconds
SMALL_SHARE = 0.05  # of the elements of all inputs
GUARD_SECONDS = 20.0  # of CPU time that the search for guards may take at least
# Parts of the time that are left for what comes later: for other sizes, for sizes of several groups together, and for other values
# at the ends of ranges.
SIZES_SHARE, JOINT_SHARE, ENDS_SHARE = 0.5, 0.15, 0.15
OVERTIME_SHARE = 0.5  # of the time, which other values may take besides where sizes took theirs


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
        self.start()
        self.compare_user_inputs()
        if not self.repeats():
            return
        budget, has_groups = self.budget, bool(self.search.groups)
        budget.reserved = SIZES_SHARE * self.seconds if has_groups else 0.0
        self.search.base = self.search.traced() if budget.call_seconds < QUICK else self.small_sizes()
        base, example = self.search.base, self.search.checker.at(self.search.base).inputs
        where = "" if base == self.search.traced() else f" at {self.search.describe(base)}"
        later = self.values.compare(example, list(variations.KINDS), base, where)
        self.apply_guards()
        budget.reserved = (ENDS_SHARE + (JOINT_SHARE if len(self.search.groups) > 1 else 0.0)) * self.seconds
        self.find_ranges()
        budget.reserved = ENDS_SHARE * self.seconds
        joint.restrict(self.search)
        budget.reserved = 0.0
        self.values.compare_at_ends()
        self.freeze_for_user_inputs()
        self.add_sizes()
        budget.end += OVERTIME_SHARE * self.seconds
        if where:
            self.values.compare(self.example, [variations.RANDOM], self.search.traced(), "")
        if late := self.values.compare(example, later, self.search.base, where):
            self.notes.append(f"witnesses: there was no time to compare values {', '.join(late)}")
        self.report()

    def start(self):
        """Begins the search, and that for guards in a process of its own."""
        groups = self.all_groups()
        text = difference(self.trace.expected, self.trace.outputs)
        at_traced = Outcome(DIFFERS if text else SAME, text, self.trace.expected, self.example, self.trace.call_seconds)
        self.budget = Budget(self.seconds, [group.traced for group in groups], self.trace.call_seconds)
        none = guards.Guards([], self.calls.script is None)
        self.search = Search(self.calls, self.example, groups, none, at_traced, self.budget)
        self.values = ValueChanges(self.search, self.builder)
        if self.calls.script is not None and groups:
            self.guard_process = self.guard_process_at(self.search.traced())

    def repeats(self):
        """Whether trace and module still agree when both are called again, and how long that takes."""
        at_traced = self.search.at_traced
        if self.trace.call_seconds < SHORT:  # A first call may take longer than others.
            self.search.checker.compare(self.example)
            again = self.search.checker.compare(self.example)
            at_traced.kind, at_traced.text = again.kind, again.text
            self.budget.call_seconds = at_traced.seconds = again.seconds
        if not at_traced.is_same:
            self.notes.append(f"witnesses: {at_traced.text} when both are called again, so that no more was compared")
        return at_traced.is_same

    # Groups and guards -----------------------------------------------------------------------------------------------

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

    def apply_guards(self):
        """Waits for the guards and merges the groups that they say are equal."""
        if self.guard_process is None:
            return
        groups = self.search.groups
        self.search.guards = self.guard_process.result()
        pairs = [guard.symbols for guard in self.search.guards.found if re.fullmatch(r"Eq\(s\d+, s\d+\)", guard.text)]
        into = list(range(len(groups)))
        for first, second in pairs:
            one, other = groups[first], groups[second]
            # Two names are two sizes: where the module branches on whether they are equal, each is looked at alone.
            if one.traced == other.traced and not (one.is_named and other.is_named):
                into = [into[first] if index == into[second] else index for index in into]
        if into != list(range(len(groups))):
            self.adopt(self.search.merged(into))

    def adopt(self, search):
        self.search = self.values.search = search
        self.budget.traced = search.traced()

    # The user's own inputs ---------------------------------------------------------------------------------------------

    def compare_user_inputs(self):
        self.differing = []
        for name, inputs in self.given:
            outcome = self.search.checker.compare(inputs)
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
        found = self.search.traced()
        elements = sum(tensor.numel() for tensor in self.example.values())
        for index, group in enumerate(self.search.groups):
            if sum(self.example[path].numel() for path in {path for path, _ in group.dims}) < SMALL_SHARE * elements:
                continue  # It would save no time, and leave few values to change.
            for size in (1, 2) if index == 0 else (9, 8, 16, 1):
                sizes = [size if position == index else other for position, other in enumerate(found)]
                if size >= group.traced or not self.budget.allows(sizes):
                    continue
                outcome = self.search.checker.at(sizes)
                self.budget.note(sizes, outcome)
                if outcome.is_same:
                    found = sizes
                    break
        return found

    def finder(self, index):
        base = list(self.search.base)
        base[index] = self.search.groups[index].traced
        return RangeFinder(self.search.checker, self.budget, self.search.guards, self.guards_at, self.tables, index, base)

    def guards_at(self, sizes):
        """The guards of a call at other sizes than the example's. Its time, an import of torch's tracer, is none of comparisons."""
        begin = time.thread_time()
        process = self.guard_process_at(sizes)
        self.budget.end += time.thread_time() - begin
        return process.result()

    def guard_process_at(self, sizes):
        return guards.GuardProcess(max(GUARD_SECONDS, self.seconds), self.calls, self.example, self.search.groups, sizes)

    def find_ranges(self):
        self.tables = guards.table_sizes(self.calls.module)
        self.unchanged, index = [], 0
        while index < len(self.search.groups):
            finder = self.finder(index)
            if finder.first_look() or not never_runs(finder) or not self.merge_with_others(index):
                index += 1
        for index in range(len(self.search.groups)):
            self.find_range(index, self.finder(index))

    def merge_with_others(self, index):
        """Merges the group with a later one of its size, or all of these, where the module then runs at other sizes."""
        group = self.search.groups[index]
        same = [other for other in range(index + 1, len(self.search.groups)) if self.search.groups[other].traced == group.traced]
        sets = [{index, other} for other in same] + ([{index, *same}] if len(same) > 1 else [])
        for chosen in sets:
            before = self.search
            self.adopt(before.merged([min(chosen) if other in chosen else other for other in range(len(before.groups))]))
            if self.finder(index).first_look():
                return True
            self.adopt(before)
        return False

    def find_range(self, index, finder):
        group = self.search.groups[index]
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
            dimension.where = flipped[0] if flipped else divergence.where(self.calls, self.search.checker.at(sizes).inputs)
        self.search.finders[index] = (finder, dimension)
        self.dimensions.append(dimension)

    # What is written -------------------------------------------------------------------------------------------------

    def add_sizes(self):
        """Witnesses at other sizes: for each group, the smallest, the largest and one between them, of those that are not too large."""
        for index, (finder, dimension) in self.search.finders.items():
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
            reason = next((finder.reason(size) for size in sorted(finder.rejected, reverse=True)), "")
            if reason and group.is_named:
                self.notes.append(f"{group.name} stays {group.traced}: {reason}")
        if left := [path for path in self.example if path in self.values.tried - self.values.compared]:
            self.notes.append(f"values of {', '.join(left)} were not compared: the module fails with each change that was tried; give "
                              "others with --witness")
        if not self.search.finders and self.unchanged and not self.named:
            group, finder = self.unchanged[0]
            reason = next((finder.reason(size) for size in sorted(finder.rejected, reverse=True)), "")
            self.notes.append(f"no dimension of the inputs can be changed: {group.name} stays {group.traced}: {reason}")
