"""The time that witnesses may take."""

import math
import time

MOST_GROWTH = 256  # times the example's size
# Comparisons that are made whatever the time, at sizes like the example's, of models that answer soon.
SURE, SURE_GROWTH, SURE_SECONDS = 24, 1.5, 0.25


class Budget:
    """Foresees what a call takes from those that were made, and says whether there is time for it.

    Seconds are CPU time of the main thread, which has its part in all that is computed: on a machine that does nothing else
    they are seconds, and on a busy one the same sizes are compared.
    """

    def __init__(self, seconds, traced, call_seconds):
        """`call_seconds` is what module and trace take together at the sizes `traced`."""
        self.end = time.thread_time() + seconds
        self.traced, self.call_seconds = list(traced), call_seconds
        self.least = call_seconds / 4
        self.sure = SURE
        self.kept = 0.0  # seconds for what comes later

    @property
    def left(self):
        return self.end - time.thread_time()

    @property
    def moment(self):
        """Seconds in which a call that is not foreseen may go on."""
        return max(0.05, min(0.5, self.left / 40))

    def growth(self, sizes):
        return math.prod(size / traced for size, traced in zip(sizes, self.traced))

    def seconds_of(self, sizes):
        growth = self.growth(sizes)
        steepest = max((size / traced for size, traced in zip(sizes, self.traced)), default=1)
        return self.least + self.call_seconds * growth * math.sqrt(max(1, steepest))

    def affords(self, sizes):
        if self.growth(sizes) > MOST_GROWTH:
            return False
        if self.seconds_of(sizes) <= self.left - self.kept:
            return True
        is_sure = self.sure > 0 and self.growth(sizes) <= SURE_GROWTH and self.call_seconds <= SURE_SECONDS
        self.sure -= is_sure
        return is_sure

    def note(self, sizes, outcome):
        if outcome.is_same:
            self.least = min(self.least, outcome.seconds)
            if self.growth(sizes) >= 0.5:
                self.call_seconds = min(self.call_seconds, outcome.seconds / self.growth(sizes))
