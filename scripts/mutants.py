"""Changes the code in single places, and shows which changes no test notices.

    python scripts/mutants.py [--sample 20] [--seed 1] [--only _parse …]

Cosmic Ray makes the mutants and runs the tests of a package for each: a comparison the other way
round, a number one higher, a loop that ends early. The sample is the same for the same seed. The
checkout stays as it is: mutants live in a copy, `build/mutants`. Needs an environment with
cosmic-ray (`make test-mutants` makes one), and `.venv`, which runs the tests.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from random import Random

from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem, WorkResult

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "mutants"
PYTHON = ROOT / ".venv" / "bin" / "python"

# The tests that hold each package, those first that notice most. Those of the parser have no use
# for tests of the encoder.
CORE = "tests/core tests/test_attacks.py"
TESTS = {
    "_parse": CORE,
    "_encode": CORE,
    "_decode": "tests/decoding",
    "api": "tests/api",
    "verify/explain.py": "tests/verify/test_explain.py tests/verify",
}

# The share of mutants that must be noticed, in percent: what samples of 12 places and more have
# shown. What survives should be changes that make no difference.
LEAST_NOTICED = {"_parse": 80, "_encode": 80, "_decode": 80, "api": 60, "verify/explain.py": 80}

# Annotations are never evaluated, so an operator in `int | None` changes nothing; of the other
# operators one replacement is enough to see whether a test looks.
USEFUL = re.compile(
    r"core/(?!ReplaceBinaryOperator|ReplaceUnaryOperator|RemoveDecorator|AddNot)"
    r"|core/ReplaceBinaryOperator_(?:Add_Sub|Sub_Add)"
)
LONGEST_RUN = 900.0


def main() -> int:
    options = arguments()
    shutil.rmtree(COPY, ignore_errors=True)
    folders = shutil.ignore_patterns(".git", ".venv*", "build", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, COPY, ignore=folders)
    rates = {package: rate_of(package, options) for package in options.only or TESTS}
    for package, rate in rates.items():
        print(f"{package}: {rate:.0f} % of the mutants were noticed")
    return int(any(rate < LEAST_NOTICED[package] for package, rate in rates.items()))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=20, help="how many places of each package")
    parser.add_argument("--seed", type=int, default=1, help="which places")
    parser.add_argument("--only", nargs="*", choices=TESTS, help="these packages")
    return parser.parse_args()


def rate_of(package: str, options: argparse.Namespace) -> float:
    """The share of mutants of a package that tests notice, in percent; the others are printed."""
    session = COPY / "session.sqlite"
    session.unlink(missing_ok=True)
    config = COPY / "cosmic-ray.toml"
    config.write_text(configuration(package), "utf-8")
    cosmic_ray("init", config, session)
    work = WorkDB(str(session), WorkDB.Mode.open)
    keep_a_sample(work, options.sample, Random(f"{package} {options.seed}"))
    cosmic_ray("exec", config, session)
    results = [r for _, r in work.results if r.worker_outcome == WorkerOutcome.NORMAL]
    survivors = [r for r in results if r.test_outcome == TestOutcome.SURVIVED]
    for survivor in survivors:
        print(survivor.diff, end="\n\n")
    work.close()
    return 100 * (1 - len(survivors) / len(results))


def configuration(package: str) -> str:
    tests = f"{PYTHON} -m pytest -x -q -p no:cacheprovider -m 'not large' {TESTS[package]}"
    return f"""\
[cosmic-ray]
module-path = "src/dsv4/{package}"
timeout = {LONGEST_RUN}
excluded-modules = []
test-command = "env PYTHONPATH=src {tests}"

[cosmic-ray.distributor]
name = "local"
"""


def keep_a_sample(work: WorkDB, size: int, random: Random) -> None:
    """Skips all but one mutant at each of `size` places."""
    places = defaultdict(list)
    for item in work.work_items:
        [mutation] = item.mutations
        if USEFUL.match(mutation.operator_name):
            places[str(mutation.module_path), mutation.start_pos].append(item)
    chosen = random.sample(sorted(places), min(size, len(places)))
    kept = {random.choice(sorted(places[place], key=identity)).job_id for place in chosen}
    for item in work.work_items:
        if item.job_id not in kept:
            skipped = WorkResult(worker_outcome=WorkerOutcome.SKIPPED, output="not in the sample")
            work.set_result(item.job_id, skipped)


def identity(item: WorkItem) -> tuple[str, int]:
    """What a mutant is, in every run: its job has another number each time."""
    [mutation] = item.mutations
    return mutation.operator_name, mutation.occurrence


def cosmic_ray(*words: str | Path) -> None:
    command = [sys.executable, "-m", "cosmic_ray.cli", *map(str, words)]
    subprocess.run(command, cwd=COPY, check=True)


if __name__ == "__main__":
    sys.exit(main())
