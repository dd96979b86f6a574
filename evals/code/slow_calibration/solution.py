"""The reference solution, a written script: write the fast program, compare both on the small data, time the large."""

from __future__ import annotations

from hotdesk.brain.models.scripted import Hands, step
from hotdesk.desk.seam import Done

FAST = '''"""Correct readings of sensors by their calibrations: `python3 correct.py FOLDER` prints a table."""

import csv
import sys
from bisect import bisect_right
from collections import defaultdict

DAY = 1440


def load(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def index(calibrations):
    """Return minutes and offsets by sensor, sorted; of equal minutes the first line counts."""
    first = defaultdict(dict)
    for each in calibrations:
        if each["grade"] != "void":
            first[each["sensor"]].setdefault(int(each["minute"]), float(each["offset"]))
    return {sensor: (sorted(own), [own[minute] for minute in sorted(own)]) for sensor, own in first.items()}


class Highest:
    """The highest value a minute has, as a tree over the minutes of one sensor."""

    def __init__(self, minutes):
        self.minutes = sorted(set(minutes))
        self.size = 1 << max(1, len(self.minutes)).bit_length()
        self.tree = [float("-inf")] * (2 * self.size)

    def add(self, minute, value):
        at = self.size + bisect_right(self.minutes, minute) - 1
        while at and self.tree[at] < value:
            self.tree[at] = value
            at //= 2

    def within(self, first, last):
        low, high = self.size + bisect_right(self.minutes, first - 1), self.size + bisect_right(self.minutes, last)
        highest = float("-inf")
        while low < high:
            if low & 1:
                highest = max(highest, self.tree[low])
                low += 1
            if high & 1:
                high -= 1
                highest = max(highest, self.tree[high])
            low //= 2
            high //= 2
        return highest


def main():
    folder = sys.argv[1]
    readings, calibrations = load(f"{folder}/readings.csv"), index(load(f"{folder}/calibrations.csv"))
    minutes = defaultdict(list)
    for reading in readings:
        minutes[reading["sensor"]].append(int(reading["minute"]))
    values = {sensor: Highest(own) for sensor, own in minutes.items()}
    writer = csv.writer(sys.stdout, lineterminator="\\n")
    writer.writerow(["minute", "sensor", "corrected", "highest", "drift"])
    drift = {}
    for reading in readings:
        sensor, minute, value = reading["sensor"], int(reading["minute"]), float(reading["value"])
        times, offsets = calibrations.get(sensor, ((), ()))
        at = bisect_right(times, minute)
        offset = offsets[at - 1] if at else 0.0
        drift[sensor] = drift.get(sensor, 0.0) * 0.9 + offset * 0.1
        values[sensor].add(minute, value)
        highest = values[sensor].within(minute - DAY + 1, minute)
        row = [reading["minute"], sensor, f"{value + offset:.3f}", f"{highest:.3f}"]
        writer.writerow([*row, f"{drift[sensor]:.6f}"])


if __name__ == "__main__":
    main()
'''
COMPARE = "python3 old.py small > old.txt && python3 correct.py small > new.txt && cmp old.txt new.txt"


async def rewrite(hands: Hands) -> Done:
    """Write the fast program, and compare it with the old one on the small data."""
    await hands.run(["cp", "correct.py", "old.py"])
    await hands.write("correct.py", FAST.encode())
    return await hands.run(["sh", "-c", COMPARE], timeout=120)


async def measure(hands: Hands) -> Done:
    """Run it on the large data within the time limit."""
    return await hands.run(["sh", "-c", "timeout 20 python3 correct.py data | tail -n 1"], timeout=60)


PLAN = (
    step(rewrite, files=["correct.py", "NOTES.md", "small"], makes=["correct.py"]),
    step(measure, files=["correct.py", "data"], makes=["correct.py"]),
)
