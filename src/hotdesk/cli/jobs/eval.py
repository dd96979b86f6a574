"""`hotdesk eval`: run evaluation tasks with hidden graders, and print the results."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

from hotdesk.brain.models.names import split_name
from hotdesk.cli import options, prestart
from hotdesk.cli.job_request import say
from hotdesk.cli.terminal import run_interruptible
from hotdesk.errors import BriefError, HostError, make_printable
from hotdesk.evaluation.job import EvalWorker
from hotdesk.evaluation.run import Evaluation, RunOptions
from hotdesk.evaluation.score import TaskResult
from hotdesk.evaluation.table import lay_out_table, result_to_json, sum_up, totals_to_json
from hotdesk.evaluation.task import find_tasks

_UNREACHED = 1
"""Exit code if a task could not be run or `--require` was not reached."""
_BOUNDS: dict[str, tuple[float, float]] = {
    "seed": (0, 2**31 - 1),
    "runs": (1, 1000),
    "jobs": (1, 64),
    "minutes": (0.1, 1440),
    "require": (0, 100),
}


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="a folder of tasks as FAMILY/TASK/task.toml, or one task's folder")
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument(
        "--model",
        action="append",
        metavar="NAME",
        help="the model that does the work, such as anthropic:MODEL; repeat the option for fallbacks",
    )
    who.add_argument("--reference", action="store_true", help="run each task's solution.py instead of a model")
    who.add_argument(
        "--replay",
        type=Path,
        metavar="DIR",
        help="use the replies that --record wrote to this folder, instead of a model",
    )
    parser.add_argument(
        "--planner", action="append", metavar="NAME", help="with --model: the model that plans (default: the same)"
    )
    parser.add_argument(
        "--task", action="append", metavar="GLOB", help="run only tasks that match, such as 'code/*'; repeatable"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the seed of the first run (default: 1)")
    parser.add_argument(
        "--runs",
        type=int,
        default=1,
        metavar="N",
        help="number of runs of each task, each with its own seed (default: 1)",
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="number of runs at the same time (default: 2)")
    parser.add_argument(
        "--minutes", type=float, metavar="N", help="time limit of each run in minutes (default: that of task.toml)"
    )
    parser.add_argument("--record", type=Path, metavar="DIR", help="write every model request and reply to this folder")
    by = "with --record: note in the recording that TEXT, not the model, gave the replies"
    parser.add_argument("--answered-by", metavar="TEXT", default="", help=by)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write deliverables, certificates and reports to this folder"
    )
    parser.add_argument(
        "--require", type=float, metavar="PERCENT", help="exit with code 1 if fewer than this percentage of runs pass"
    )
    options.add_json(parser, "print each result as a line of JSON, and the totals as the last line")


def main(arguments: argparse.Namespace) -> int:
    """Run evaluation tasks: generate a brief, carry it out, and grade the result with a hidden grader at a clean desk.

    For each run the table says whether the first delivery passed both the brief's checks and the grader (FIRST),
    whether the last one did (FINAL), model turns, tool calls, tokens, cost and time, and the first failure. Progress
    goes to standard error. Exit code 0 means that every task was run, whatever the results; 1 that one could
    not be run, or that fewer than --require percent passed. Ctrl-C ends the running tasks and prints the finished ones.

    Recordings are DIR/FAMILY-TASK-SEED.jsonl. A replay calls no model; its tokens, cost and model time are those of
    the recording. Solutions and sites of tasks run on this machine with your rights: read them before you run them.

    For example:

      hotdesk eval evals --reference
      hotdesk eval evals --model anthropic:claude-sonnet-5 --runs 3 --jobs 4 --out results
      hotdesk eval evals --task 'documents/*' --model chat:local@http://127.0.0.1:8080/v1 --record recordings
      hotdesk eval evals --replay recordings --require 80
      hotdesk eval evals --reference --json | jq 'select(.first_failure) | .task, .first_failure'
    """
    _check_arguments(arguments)
    tasks = find_tasks(arguments.folder, arguments.task or ())
    evaluation = Evaluation(
        prestart.get_settings(), tasks, _run_options(arguments), say, _make_reporter(arguments.json)
    )
    evaluation.prepare()
    code = run_interruptible(evaluation.run)
    _print_totals(evaluation, as_json=arguments.json)
    if code:
        say(f"hotdesk: interrupted; {len(evaluation.results)} of {len(evaluation.runs)} runs were finished")
        return code
    totals = sum_up(evaluation.results)
    required = arguments.require is None or totals.percent >= arguments.require
    if not required:
        say(f"hotdesk: {totals.percent:.1f} % of the runs passed; --require asks for {arguments.require:g} %")
    return 0 if required and not totals.broken else _UNREACHED


def _check_arguments(arguments: argparse.Namespace) -> None:
    if os.geteuid() != 0:
        raise HostError("Opening the desks of an evaluation needs root. Use `sudo hotdesk eval`.")
    for name, (least, most) in _BOUNDS.items():
        value = getattr(arguments, name)
        if value is not None and not least <= value <= most:
            raise BriefError(f"--{name} must be {least:.15g} to {most:.15g}, not {value:.15g}.")
    if arguments.model is None and (arguments.record or arguments.planner):
        option = "--record" if arguments.record else "--planner"
        raise BriefError(f"{option} needs --model: no model is called otherwise.")
    if arguments.answered_by and not arguments.record:
        raise BriefError("--answered-by needs --record: the text is written into the recording.")
    for name in (*(arguments.model or ()), *(arguments.planner or ())):
        split_name(name)


def _run_options(arguments: argparse.Namespace) -> RunOptions:
    worker = EvalWorker(
        models=tuple(arguments.model or ()),
        planners=tuple(arguments.planner or ()),
        is_reference=arguments.reference,
        replay=arguments.replay.absolute() if arguments.replay else None,
        record=arguments.record.absolute() if arguments.record else None,
        answered_by=arguments.answered_by,
    )
    return RunOptions(
        worker=worker,
        seeds=tuple(range(arguments.seed, arguments.seed + arguments.runs)),
        parallel=arguments.jobs,
        minutes=arguments.minutes,
        out=arguments.out.absolute() if arguments.out else None,
    )


def _make_reporter(as_json: bool) -> Callable[[TaskResult], None]:
    def report(result: TaskResult) -> None:
        if as_json:
            print(json.dumps(result_to_json(result)), flush=True)
        say(f"{result.task} seed {result.seed}: {_describe(result)}")

    return report


def _describe(result: TaskResult) -> str:
    if result.outcome == "broken":
        return f"could not be run: {result.failure}"
    delivery = "at the first delivery" if result.first_delivery else "after a correction"
    verdict = f"passed {delivery}" if result.outcome == "passed" else f"failed: {result.failure}"
    return f"{verdict} ({result.seconds:.1f} s)"


def _print_totals(evaluation: Evaluation, *, as_json: bool) -> None:
    worker = evaluation.options.worker.describe([task.format_label(seed) for task, seed in evaluation.runs])
    if as_json:
        print(json.dumps({"totals": totals_to_json(sum_up(evaluation.results)), "worker": worker}), flush=True)
    elif evaluation.results:
        print(f"Worker: {make_printable(worker)}", *lay_out_table(evaluation.results), sep="\n", flush=True)
