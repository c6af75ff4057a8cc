#!/usr/bin/env python3
"""Compares two builds of `dualvm` by its own benchmark: their runs take turns, so that both see the same machine.

    benches/compare.py BEFORE AFTER [--suite table1,native,parallel] [--case NAMES] [--rounds 9] [--quick] [--worst 1.03]

BEFORE and AFTER are executables. For each row and each engine it prints every time that the benchmark reports of dualvm
(a primal call, a gradient, with and without the border), in BEFORE and AFTER and as a ratio: the median over the rounds of the ratios within a
round, and the ratio of the best times. A row counts as slower if both say so. Exit status 1 if a row is slower than
`--worst` times. It needs nothing but Python.
"""

import argparse
import json
import statistics
import subprocess
import sys


def is_time(field):
    return field.endswith("_ns") and not field.startswith(("hand_", "paper_"))


def measure(binary, suite, options):
    command = [binary, "bench", "--suite", suite, "--format", "json"]
    if options.case:
        command += ["--case", options.case]
    if options.quick:
        command.append("--quick")
    if suite == "parallel":
        command += ["--threads", options.threads]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    rows = {}
    report = json.loads(done.stdout)
    for row in report["results"] + report.get("costs", []):
        name = row.get("case") or row.get("name") or row.get("what", "")
        if "size" in row:
            name += " " + row["size"]
        key = (suite, name, str(row.get("tier", "")), row.get("threads", 1))
        rows[key] = {field: value for field, value in row.items() if is_time(field) and value is not None}
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--suite", default="table1,native,parallel")
    parser.add_argument("--case", help="cases of the suites, which all of these have")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", default="1,2", help="for the suite parallel")
    parser.add_argument("--worst", type=float, default=1.03)
    options = parser.parse_args()

    samples = {}
    for suite in options.suite.split(","):
        for n in range(options.rounds):
            # Who goes first changes from round to round.
            order = [("before", options.before), ("after", options.after)]
            for name, binary in order if n % 2 == 0 else reversed(order):
                for key, row in measure(binary, suite, options).items():
                    for field, value in row.items():
                        samples.setdefault((key, field), {}).setdefault(name, []).append(value)
            print(f"\r{suite}: round {n + 1} of {options.rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)

    print(f"{'suite':9}{'case':26}{'engine':13}{'threads':>8}  {'what':16}{'before':>11}{'after':>11}{'median':>8}{'best':>7}")
    slower = 0
    for ((suite, case, engine, threads), field), found in samples.items():
        before, after = found.get("before", []), found.get("after", [])
        if len(before) != len(after) or not before or min(before) <= 0:
            continue
        median = statistics.median(b / a for a, b in zip(before, after))
        best = min(after) / min(before)
        mark = ""
        if min(median, best) > options.worst:
            slower += 1
            mark = "  slower"
        what = field.removesuffix("_ns")
        print(
            f"{suite:9}{case:26}{engine:13}{threads:8}  {what:16}"
            f"{min(before) / 1e3:10.3f}{min(after) / 1e3:11.3f} {median:7.3f}{best:7.3f}{mark}"
        )
    print(f"\ntimes are the best ones, in µs; {slower} of {len(samples)} rows are slower by more than {options.worst}")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
