"""The sizes of one group of dimensions at which the trace answers as the module does."""

import random
import re

from cleave_trace.witnesses.budget import MAX_GROWTH
from cleave_trace.witnesses.checker import MODULE_FAILS
from cleave_trace.witnesses.witness_file import Dimension

UNLIMITED = 2**63 - 1
FAR = 1 << 40  # guards that hold up to there hold for every size
PERIOD = 4096  # sizes that are all tried where guards may hold again and again
FIRST_MAX_GROWTH = 2  # of the first size above the traced one, which may take longer than the time that is left
LARGEST = 4096  # up to which sizes are compared where calls are quick
EXTRA_DRAWS = 24  # where calls are quick
QUICK, BRIEF, SLOW = 0.02, 0.1, 0.25  # seconds


class RangeFinder:
    """Searches sizes of group `index` while the other groups stay at `base`.

    `guards_at` gives the guards of a call at other sizes of the groups.
    """

    def __init__(self, checker, budget, guards, guards_at, tables, index, base):
        self.checker, self.budget, self.guards, self.guards_at, self.tables = checker, budget, guards, guards_at, tables
        self.guards_at_larger = None  # guards of a call at a larger size than the traced one
        self.index, self.base = index, list(base)
        self.group = checker.groups[index]
        self.traced = self.group.traced
        self.agreeing, self.rejected = set(), {}

    # One size ------------------------------------------------------------------------------------------------------

    def sizes(self, size):
        return [size if position == self.index else other for position, other in enumerate(self.base)]

    def may_compare(self, size):
        """Whether `size` was compared, or may be now."""
        return tuple(self.sizes(size)) in self.checker.known or self.budget.allows(self.sizes(size))

    def may_compare_larger(self, size):
        """As `may_compare`, but the first size above the traced one may be compared while any time is left, since guards alone do not
        show that trace and module agree there."""
        is_first = all(other <= self.traced for other in self.agreeing)
        return self.may_compare(size) or is_first and self.budget.growth(self.sizes(size)) <= FIRST_MAX_GROWTH and self.budget.left > 0

    def agrees_at(self, size):
        """Whether trace and module agree at `size`."""
        if size in self.agreeing or size in self.rejected:
            return size in self.agreeing
        outcome = self.checker.at(self.sizes(size))
        self.budget.note(self.sizes(size), outcome)
        if outcome.is_same:
            self.agreeing.add(size)
        else:
            self.rejected[size] = outcome
        return outcome.is_same

    def outcome(self, size):
        """That of a size that was compared."""
        return self.checker.known[tuple(self.sizes(size))]

    def allowed(self, dimension):
        """The sizes that agree and that `dimension` lets in, in order."""
        return sorted(size for size in self.agreeing if dimension.allows(size))

    def guards_cover(self, size, guards=None):
        """Whether guards, those of the traced sizes unless given, hold at `size`.

        Where those that fail leave out single sizes only, trace and module are compared at `size`, which counts as well.
        """
        failing = self.failing_guards(self.sizes(size), guards)
        return not failing or all(guard.is_hole for guard in failing) and self.may_compare(size) and self.agrees_at(size)

    def holes(self, step, guards):
        """Sizes near the constants of guards and the sizes of other groups, at which some guard does not hold."""
        near = {self.base[index] for guard in guards.found for index in guard.symbols}
        for guard in guards.found:
            if self.index in guard.symbols:
                numbers = sorted(guard.constants())[-8:]
                near.update(number // by + more for number in numbers for by in {1, *numbers} - {0} for more in (-1, 0, 1))
        sizes = {size // step * step for size in near} | {size // step * step + step for size in near}
        return sorted(size for size in sizes if size >= step and self.failing_guards(self.sizes(size), guards))

    def failing_guards(self, sizes, guards=None):
        return [guard for guard in (guards or self.guards).found if self.index in guard.symbols and not guard.holds(sizes)]

    # The search ----------------------------------------------------------------------------------------------------

    def first_look(self):
        """Whether the module runs at any other size; the base has to agree."""
        for sizes, outcome in self.checker.known.items():  # Some were compared before.
            if list(sizes) == self.sizes(sizes[self.index]):
                self.agrees_at(sizes[self.index])
        if not self.agrees_at(self.traced):
            return False
        near = [1, self.traced + 1, 2, self.traced - 1, self.traced // 2, 2 * self.traced, self.guard_step() + self.traced,
                self.traced - self.guard_step(), self.traced * 3 // 4, self.traced * 3 // 2]
        for size in dict.fromkeys(near):
            if len(self.agreeing) > 1 and not self.is_quick(self.traced):
                break
            if size >= 1 and size != self.traced and self.may_compare(size):
                self.agrees_at(size)
        return any(size != self.traced for size in self.agreeing) or self.diverges

    def guard_step(self):
        """The least step from the traced size at which all guards hold."""
        for step in range(1, min(self.traced, PERIOD) + 1):
            if self.guards_cover(self.traced + step) or self.traced > step and self.guards_cover(self.traced - step):
                return step
        return 1

    def find(self):
        """The group's Dimension."""
        step = self.step()
        if step is None:
            return self.frozen()
        holes = self.holes(step, self.guards)
        for size in holes:
            if self.may_compare(size):
                self.agrees_at(size)
        least, greatest = self.lower(step), self.upper(step)
        unknown = [size for size in holes if size not in self.agreeing and size not in self.rejected]
        greatest = min([greatest, *(size - step for size in unknown if size > self.traced)])
        least = max([least, *(size + step for size in unknown if size < self.traced)])
        self.compare_drawn_sizes(least, min(greatest, self.largest_compared()), step)
        least = max(least, self.covered_least(step))
        least, greatest = self.cut(least, greatest, step)
        return self.dimension(least, greatest, step)

    def step(self):
        """The step between sizes that agree, a divisor of the traced size; None if no other size does."""
        divisors = [step for step in range(1, self.traced + 1) if self.traced % step == 0]
        for step in divisors:
            if any(size in self.agreeing for size in (self.traced - step, self.traced + step)):
                return step
            if any(size % step for size in self.agreeing):
                continue
            near = [size for size in (self.traced - step, self.traced + step) if size >= 1 and self.may_compare(size)]
            if any(self.agrees_at(size) for size in near):
                return step
        return None

    def lower(self, step):
        least = min(size for size in self.agreeing if size % step == 0)
        for size in (step, 2 * step, 3 * step, self.last_covered(self.traced, -step, self.guards)):
            if size is not None and size < least and self.may_compare(size) and self.agrees_at(size):
                least = size
        outer = max((size for size in self.rejected if size < self.traced and size % step == 0), default=0)
        return self.bisect(outer, step) if outer else least

    def covered_least(self, step):
        """The least size down to which guards hold, or each size was compared; 0 where there are no guards to go by."""
        end = self.last_covered(self.traced, -step, self.guards)
        if end is None:
            return 0
        while end - step in self.agreeing:
            end -= step
        return end

    def bisect(self, outer, step):
        """The size that agrees and is next to one that does not, between the traced size and `outer`, which does not agree."""
        inner = self.nearest_agreeing(outer)
        while abs(inner - outer) > step:
            low, high = min(inner, outer), max(inner, outer)
            middle = low + (high - low) // (2 * step) * step
            if middle in (inner, outer):
                break
            if not self.may_compare(middle):
                break
            if self.agrees_at(middle):
                inner = middle
            else:
                outer = middle
        return inner

    def nearest_agreeing(self, outer):
        """Of the sizes known to agree on the traced size's side of `outer`, the one next to it."""
        if outer < self.traced:
            return min((size for size in self.agreeing if outer < size <= self.traced), default=self.traced)
        return max((size for size in self.agreeing if self.traced <= size < outer), default=self.traced)

    def last_covered(self, start, signed_step, guards):
        """The last size up to which `guards` hold, from `start` by `signed_step`; None if there are none, or none fails down to 1 or
        up to FAR."""
        if not guards.found:
            return None
        distance, last = 1, 0
        if any(guard.is_periodic and self.index in guard.symbols for guard in guards.found):
            while distance <= PERIOD and (size := start + distance * signed_step) >= 1 and self.guards_cover(size, guards):
                last, distance = distance, distance + 1
            if distance <= PERIOD:
                return start + last * signed_step if start + distance * signed_step >= 1 else None
        farthest = FAR // abs(signed_step) if signed_step > 0 else (start - 1) // -signed_step
        while last < farthest and self.guards_cover(start + distance * signed_step, guards):
            last, distance = distance, min(2 * distance, farthest)
        if last == farthest:
            return None
        while distance - last > 1:
            middle = (distance + last) // 2
            last, distance = (middle, distance) if self.guards_cover(start + middle * signed_step, guards) else (last, middle)
        return start + last * signed_step

    def upper(self, step):
        """The greatest size, UNLIMITED where guards say that there is none."""
        greatest = self.find_upper(step)
        if self.traced < 2 and greatest > self.traced and self.guards_at_larger is None:
            self.guards_at_larger = self.guards_at(self.sizes(self.largest_compared()))  # Of other groups at such sizes.
        return greatest

    def find_upper(self, step):
        end = self.last_covered(self.traced, step, self.guards)
        if end is not None:
            for size in (end, end + step):
                if self.may_compare(size):
                    self.agrees_at(size)
        limit = self.limit(step)
        # Python may decide by a size in ways that no guard shows, so what takes little time is compared at large sizes, too.
        size, growth = self.traced + step, 2 if self.budget.call_seconds < SLOW else 8
        while size < limit and (size <= 2 * self.traced or self.is_brief(size)) and self.may_compare_larger(size):
            if not self.agrees_at(size):
                break
            size = self.traced + growth * (size - self.traced)
        outer = min((size for size in self.rejected if size > self.traced and size % step == 0), default=None)
        if outer is not None and self.rejected[outer].kind == MODULE_FAILS and self.are_guards_known(outer - step):
            for table in self.tables:
                size = table // step * step
                if self.traced < size < outer and self.may_compare(size):
                    self.agrees_at(size)
            return self.runs_up_to(self.nearest_agreeing(outer), outer, step)
        if outer is not None:
            return self.bisect(outer, step)
        largest = self.largest_compared()
        if self.guards.is_complete and largest > self.traced:
            if self.traced < 2:  # torch takes 1 for a constant, of which no guard says anything.
                return self.end_beyond_guards(largest, step)
            if end is None:
                return UNLIMITED
            return end if largest <= end else self.end_beyond_guards(largest, step)
        return largest

    def end_beyond_guards(self, largest, step):
        """The greatest size where trace and module still agree at `largest`, beyond a guard that fails.

        That guard did not matter, so the guards of a call at `largest` bound the range.
        """
        found = self.guards_at(self.sizes(largest))
        if not found.is_complete:
            return largest
        self.guards_at_larger = found
        covered = self.last_covered(largest, -step, found)
        reached = max(self.traced, self.last_covered(self.traced, step, self.guards) or 0) if self.traced >= 2 else 1
        while reached + step in self.agreeing:
            reached += step
        if covered is not None and covered > reached + step:
            return reached
        if any(size > largest for size in self.holes(step, found)):
            return largest
        end = self.last_covered(largest, step, found)
        return UNLIMITED if end is None else end

    def limit(self, step):
        """The least size at which the module is known to fail, a size of a table and one more, say."""
        for table in self.tables:
            size = (table // step + 1) * step
            if size > self.traced and self.fails_within_probe(size):
                return size
        return UNLIMITED

    def fails_within_probe(self, size):
        """Whether the module fails at `size` before it has done much."""
        if self.budget.growth(self.sizes(size)) > MAX_GROWTH or self.budget.left < 0 or size in self.agreeing:
            return False
        if size not in self.rejected and self.checker.fails_within(self.sizes(size), self.budget.probe_seconds):
            self.rejected[size] = self.checker.known[tuple(self.sizes(size))]
        return size in self.rejected

    def are_guards_known(self, size):
        """Whether guards say that the module does at `size` what it does at the traced one."""
        return self.guards.is_complete and self.guards_cover(size)

    def runs_up_to(self, inner, outer, step):
        """As bisect, where guards cover the sizes between, so that only where the module begins to fail has to be found."""
        inner, outer = inner // step, outer // step
        while outer - inner > 1:
            middle = (inner + outer) // 2
            if self.fails_within_probe(middle * step) or not self.are_guards_known(middle * step):
                outer = middle
            else:
                inner = middle
        return inner * step

    def is_quick(self, size):
        return self.budget.seconds_of(self.sizes(size)) < QUICK

    def is_brief(self, size):
        return size <= LARGEST and self.budget.seconds_of(self.sizes(size)) < BRIEF

    def largest_compared(self):
        return max(self.agreeing)

    def compare_drawn_sizes(self, least, greatest, step):
        """Draws further sizes in the range."""
        draw = random.Random(self.traced)
        count = (greatest - least) // step
        if count <= 1:
            return
        quick = self.is_quick(greatest)
        some = [least + step * draw.randint(0, count) for _ in range(EXTRA_DRAWS if quick else 2)]
        small = [step * factor for factor in range(1, 40 if quick else 4)]
        for size in sorted({*some, *small}, key=lambda size: size not in some):
            if least <= size <= greatest and self.may_compare(size):
                self.agrees_at(size)

    def cut(self, least, greatest, step):
        """The range without the sizes that turned out not to agree."""
        for size in self.rejected:
            if size % step == 0 and least <= size < self.traced:
                outer = max(other for other in self.rejected if other % step == 0 and other < self.traced)
                least = min(other for other in self.agreeing if other % step == 0 and other > outer)
            if size % step == 0 and self.traced < size <= greatest:
                outer = min(other for other in self.rejected if other % step == 0 and other > self.traced)
                greatest = max(other for other in self.agreeing if other % step == 0 and other < outer)
        return least, greatest

    # What is said of it ----------------------------------------------------------------------------------------------

    def dimension(self, least, greatest, step):
        below = self.reason(least - step) if least > step else ""
        above = self.reason(greatest + step) if greatest != UNLIMITED else ""
        between = ""
        if step > 1:
            size = next((size for size in sorted(self.rejected, key=lambda size: abs(size - self.traced)) if size % step), None)
            between = self.reason(size) if size else ""
        return Dimension([list(pair) for pair in self.group.dims], self.traced, least, greatest, step, below, above, between,
                         diverges=self.diverges)

    @property
    def diverges(self):
        return any(outcome.diverges for outcome in self.rejected.values())

    def reason(self, size):
        if size in self.rejected:
            return f"at {size} {self.rejected[size].text}"
        guards = self.guards_at_larger if size > self.traced else None
        failing = [] if size in self.agreeing else self.failing_guards(self.sizes(size), guards)
        if not failing:
            return ""
        return f"at {size} the module decides otherwise: {self.named(failing[0])} does not hold"

    def named(self, guard):
        """The guard with names of groups."""
        return re.sub(r"\bs(\d+)\b", lambda match: self.checker.groups[int(match[1])].name, guard.text)

    def frozen(self):
        """A dimension that keeps its size; module and trace part at all others that were tried, where the module runs."""
        near = sorted(self.rejected, key=lambda size: abs(size - self.traced))
        diverging = [size for size in near if self.rejected[size].diverges]
        others = [size for size in near if not self.rejected[size].diverges]
        below = next((self.reason(size) for size in (*diverging, *others) if size < self.traced), "")
        above = next((self.reason(size) for size in (*diverging, *others) if size > self.traced), "")
        return Dimension([list(pair) for pair in self.group.dims], self.traced, self.traced, self.traced, 1, below, above,
                         diverges=bool(diverging))

    def nearest_diverging_size(self):
        """A size near the traced one at which the module runs and the trace does not follow it."""
        near = sorted((size for size in self.rejected if self.rejected[size].diverges), key=lambda size: abs(size - self.traced))
        return near[0] if near else None


def never_runs(finder):
    return all(outcome.kind == MODULE_FAILS for outcome in finder.rejected.values())
