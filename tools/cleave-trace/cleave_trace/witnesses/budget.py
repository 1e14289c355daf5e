"""The time that witnesses may take."""

import math
import time

MAX_GROWTH = 256  # times the example's size
# Comparisons that are made whatever the time, at sizes like the example's, of models whose calls are quick.
GUARANTEED, GUARANTEED_MAX_GROWTH, GUARANTEED_MAX_SECONDS = 24, 1.5, 0.25


class Budget:
    """Foresees what a call takes from those that were made, and says whether there is time for it.

    Times are CPU seconds of this thread, so that a busy machine compares the same sizes as an idle one.
    """

    def __init__(self, seconds, traced, call_seconds):
        """`call_seconds` is what module and trace take together at the sizes `traced`."""
        self.end = time.thread_time() + seconds
        self.traced, self.call_seconds = list(traced), call_seconds
        self.fixed_seconds = call_seconds / 4  # of a call at any size
        self.guaranteed = GUARANTEED
        self.reserved = 0.0  # seconds for what comes later

    @property
    def left(self):
        return self.end - time.thread_time()

    @property
    def probe_seconds(self):
        """Time limit of a call whose duration is not known."""
        return max(0.05, min(0.5, self.left / 40))

    def growth(self, sizes):
        return math.prod(size / traced for size, traced in zip(sizes, self.traced))

    def seconds_of(self, sizes):
        growth = self.growth(sizes)
        steepest = max((size / traced for size, traced in zip(sizes, self.traced)), default=1)
        return self.fixed_seconds + self.call_seconds * growth * math.sqrt(max(1, steepest))

    def allows(self, sizes):
        """Whether a comparison at `sizes` may be made now; takes it from those that are guaranteed if there is no time for it."""
        if self.growth(sizes) > MAX_GROWTH:
            return False
        if self.seconds_of(sizes) <= self.left - self.reserved:
            return True
        if self.growth(sizes) > GUARANTEED_MAX_GROWTH or self.call_seconds > GUARANTEED_MAX_SECONDS or self.guaranteed == 0:
            return False
        self.guaranteed -= 1
        return True

    def note(self, sizes, outcome):
        if outcome.is_same:
            self.fixed_seconds = min(self.fixed_seconds, outcome.seconds)
            if self.growth(sizes) >= 0.5:
                self.call_seconds = min(self.call_seconds, outcome.seconds / self.growth(sizes))
