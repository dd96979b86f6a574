"""Write the slow program, its data, and hidden data to judge by: `python3 generate.py SEED`."""

from __future__ import annotations

import csv
import hashlib
import json
import random
import subprocess
import sys
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path

PROGRAM = '''"""Correct readings of sensors by their calibrations: `python3 correct.py FOLDER` prints a table.

FOLDER has readings.csv (minute,sensor,value) and calibrations.csv (minute,sensor,offset,grade).
"""

import csv
import sys


def load(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def calibration_of(reading, calibrations):
    """Return the calibration in force: the latest one of the sensor that is not later than the reading."""
    best = None
    for each in calibrations:
        if each["sensor"] != reading["sensor"] or each["grade"] == "void":
            continue
        if int(each["minute"]) > int(reading["minute"]):
            continue
        if best is None or int(each["minute"]) > int(best["minute"]):
            best = each
    return best


def highest_before(place, reading, readings):
    """Return the highest raw value of the sensor in the day up to this reading, of lines up to this one."""
    highest = None
    for other in readings[: place + 1]:
        if other["sensor"] == reading["sensor"]:
            if 0 <= int(reading["minute"]) - int(other["minute"]) < 1440:
                if highest is None or float(other["value"]) > highest:
                    highest = float(other["value"])
    return highest


def main():
    folder = sys.argv[1]
    readings, calibrations = load(f"{folder}/readings.csv"), load(f"{folder}/calibrations.csv")
    writer = csv.writer(sys.stdout, lineterminator="\\n")
    writer.writerow(["minute", "sensor", "corrected", "highest", "drift"])
    drift = {}
    for place, reading in enumerate(readings):
        calibration = calibration_of(reading, calibrations)
        offset = float(calibration["offset"]) if calibration else 0.0
        corrected = float(reading["value"]) + offset
        drift[reading["sensor"]] = drift.get(reading["sensor"], 0.0) * 0.9 + offset * 0.1
        highest = highest_before(place, reading, readings)
        row = [reading["minute"], reading["sensor"], f"{corrected:.3f}", f"{highest:.3f}"]
        writer.writerow([*row, f"{drift[reading['sensor']]:.6f}"])


if __name__ == "__main__":
    main()
'''
NOTES = """# Notes on the data

- Readings are in the order in which the collector received them. Some come late, so minutes of a sensor can go back.
- Calibrations were typed in by hand, in no order. Two may stand at the same minute of a sensor; the report has
  always used the same one of them, and customers have figures that rest on it.
- A calibration of grade `void` was withdrawn.
- Nobody may change what the report prints, not even where it looks odd.
"""
GOAL = """
correct.py takes hours on three weeks of data, because it searches all rows for each row. Write a version that
prints exactly the same, byte for byte, and takes less than 20 seconds for 60,000 readings and 6,000 calibrations;
`python3 correct.py FOLDER` is how it is run. data/ is that, small/ is a part that the old program can do; NOTES.md
tells of the data. Use the standard library only. Deliver it as correct.py. It is judged by data that you do not
have, against the old program.
"""
RUN = "python3 -B $1 beside/data > out.csv && head -n 1 out.csv && wc -l < out.csv"
SLOTS = 3000
"""Sensors report at every tenth minute of three weeks."""


def main() -> None:
    """Write brief/ and hidden/."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same data
    for folder, readings, calibrations in (
        ("brief/data", 60_000, 6_000),
        ("brief/small", 700, 120),
        ("hidden/one", 1_500, 300),
        ("hidden/two", 1_500, 60),
        ("hidden/large", 60_000, 6_000),
    ):
        write_data(Path(folder), chance, readings, calibrations)
    Path("brief/correct.py").write_text(PROGRAM)
    Path("brief/NOTES.md").write_text(NOTES)
    Path("brief/brief.toml").write_text(brief())
    expected = {name: run_slow(f"hidden/{name}") for name in ("one", "two")}
    for name, text in expected.items():
        if "".join(correct(Path("hidden", name))) != text:
            raise ValueError(f"the fast way disagrees with the program on the data {name}")
    truth = {"program": PROGRAM, "seconds": 20, "expected": expected, "large": digest(correct(Path("hidden/large")))}
    Path("hidden/truth.json").write_text(json.dumps(truth))


def run_slow(folder: str) -> str:
    """Return what the program prints for small data."""
    argv = [sys.executable, "-B", "brief/correct.py", folder]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def digest(lines: list[str]) -> list[str]:
    """Return the SHA-256 of every 1,000 lines."""
    parts = ["".join(lines[at : at + 1000]) for at in range(0, len(lines), 1000)]
    return [hashlib.sha256(part.encode()).hexdigest() for part in parts]


def correct(folder: Path) -> list[str]:
    """Return the lines that the program prints, in seconds where it needs hours."""
    calibrations = load_calibrations(folder)
    past: dict[str, list[tuple[int, float]]] = defaultdict(list)
    latest: dict[str, list[int]] = defaultdict(list)
    drift: dict[str, float] = {}
    lines = ["minute,sensor,corrected,highest,drift\n"]
    with (folder / "readings.csv").open(newline="") as file:
        for reading in csv.DictReader(file):
            sensor, minute, value = reading["sensor"], int(reading["minute"]), float(reading["value"])
            minutes, offsets = calibrations.get(sensor, ([], []))
            at = bisect_right(minutes, minute)
            offset = offsets[at - 1] if at else 0.0
            drift[sensor] = drift.get(sensor, 0.0) * 0.9 + offset * 0.1
            past[sensor].append((minute, value))
            latest[sensor].append(max([minute, *latest[sensor][-1:]]))
            # Lines before `first` are all a day older or more: the latest minute up to each of them is.
            first = bisect_right(latest[sensor], minute - 1440)
            highest = max(each for when, each in past[sensor][first:] if 0 <= minute - when < 1440)
            lines.append(f"{minute},{sensor},{value + offset:.3f},{highest:.3f},{drift[sensor]:.6f}\n")
    return lines


def load_calibrations(folder: Path) -> dict[str, tuple[list[int], list[float]]]:
    """Return minutes and offsets of each sensor by time; of equal minutes the first line counts."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    with (folder / "calibrations.csv").open(newline="") as file:
        for each in csv.DictReader(file):
            if each["grade"] != "void":
                found[each["sensor"]].setdefault(int(each["minute"]), float(each["offset"]))
    return {sensor: (sorted(own), [own[minute] for minute in sorted(own)]) for sensor, own in found.items()}


def write_data(folder: Path, chance: random.Random, readings: int, calibrations: int) -> None:
    """Write readings, some of them late, and unordered calibrations, some with equal times."""
    folder.mkdir(parents=True)
    sensors = [f"S{number:02d}" for number in range(max(3, readings // 3000))]
    lines = []
    for place in range(readings):
        late = chance.choice([0, 0, 0, 0, chance.randint(1, 200)])
        value = chance.choice([f"{chance.uniform(-5, 40):.2f}", f"{chance.randint(-5, 40)}"])
        lines.append(f"{10 * max(0, place * SLOTS // readings - late)},{chance.choice(sensors)},{value}\n")
    (folder / "readings.csv").write_text("minute,sensor,value\n" + "".join(lines))
    lines = []
    while len(lines) < calibrations:
        minute, sensor = 10 * chance.randint(SLOTS // 10, SLOTS), chance.choice(sensors)
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            grade = chance.choice(["a", "b", "b", "void"])
            lines.append(f"{minute},{sensor},{chance.uniform(-2, 2):.4f},{grade}\n")
    chance.shuffle(lines)
    (folder / "calibrations.csv").write_text("minute,sensor,offset,grade\n" + "".join(lines))


def brief() -> str:
    """Return the brief; its check demands that the large data is done in time."""
    return (
        f'goal = """{GOAL}"""\ninputs = ["correct.py", "NOTES.md", "data", "small"]\nseconds = 1200\n\n'
        '[[deliverables]]\npath = "correct.py"\ncheck = "command"\nactive = ["programs"]\n\n[deliverables.expect]\n'
        f'run = ["sh", "-c", "{RUN}", "run", "{{file}}"]\nseconds = 20\n'
        'contains = ["minute,sensor,corrected,highest,drift", "60001"]\n'
        'beside = ["data/readings.csv", "data/calibrations.csv"]\n'
    )


if __name__ == "__main__":
    main()
