"""Runs tasks, several at once, each in a state directory of its own. A run that breaks is one result."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path

import anyio

from hotdesk.brain.models import record
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, HotdeskError, make_printable
from hotdesk.evaluation.command import StateDirectory, make_state
from hotdesk.evaluation.grade import Grade, generate, grade, lay_out
from hotdesk.evaluation.job import EvalWorker, JobOutput, carry_out
from hotdesk.evaluation.score import TaskResult, add_recorded_usage, judge, score_job, shorten
from hotdesk.evaluation.site import serve_site
from hotdesk.evaluation.table import result_to_json
from hotdesk.evaluation.task import EvalTask


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of every run of an evaluation."""

    worker: EvalWorker
    seeds: tuple[int, ...] = (1,)
    parallel: int = 2
    minutes: float | None = None
    """Minutes a job may take; `None`: those of its task."""
    out: Path | None = None
    """The folder for deliverables, certificates, reports and grades, with a folder for each run; `None`: not stored."""


@dataclass(slots=True)
class Evaluation:
    """Tasks that are run with each seed, and the results so far."""

    settings: Config
    tasks: Sequence[EvalTask]
    options: RunOptions
    say: Callable[[str], None]
    """Reports progress."""
    on_result: Callable[[TaskResult], None]
    results: list[TaskResult] = field(default_factory=list)

    @property
    def runs(self) -> list[tuple[EvalTask, int]]:
        return [(task, seed) for task in self.tasks for seed in self.options.seeds]

    def prepare(self) -> None:
        """Create the result folders; raise `BriefError` if a run would overwrite a file or lacks its recording."""
        worker = self.options.worker
        for folder in (worker.record, self.options.out):
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        for task, seed in self.runs:
            label = task.format_label(seed)
            recording = worker.get_recording(label)
            if recording is not None and not recording.is_file():
                raise BriefError(
                    f"There is no recording {recording}. Record it with --record, or select other tasks with --task."
                )
            places = ((worker.record, f"{label}.jsonl"), (self.options.out, label))
            for path in (folder / name for folder, name in places if folder is not None):
                if path.exists():
                    raise BriefError(f"{path} exists already. Remove it, or choose another folder.")

    async def run(self) -> int:
        """Run everything. The results so far are in `results` even if this is cancelled."""
        waiting = iter(enumerate(self.runs))
        with _scratch_folder() as scratch:
            async with anyio.create_task_group() as tasks:
                for _ in range(min(self.options.parallel, len(self.runs))):
                    tasks.start_soon(self._work_off, waiting, scratch)
        return 0

    async def _work_off(self, waiting: Iterator[tuple[int, tuple[EvalTask, int]]], scratch: Path) -> None:
        for place, (task, seed) in waiting:
            result = await TaskRun(self, task, seed, scratch / str(place)).carry_out()  # sockets need short paths
            self.results.append(result)
            self.on_result(result)


@dataclass(slots=True)
class TaskRun:
    """One task with one seed."""

    evaluation: Evaluation
    task: EvalTask
    seed: int
    folder: Path
    output: JobOutput = field(default_factory=JobOutput)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def out(self) -> Path:
        kept_in = self.evaluation.options.out
        return kept_in / self.task.format_label(self.seed) if kept_in is not None else self.data / "out"

    async def carry_out(self) -> TaskResult:
        """Generate, work and grade. A failure is a result, too, also one to store the result or to clean up."""
        result = TaskResult(self.task.name, self.seed, "broken")
        try:
            state = make_state(self.folder, self.evaluation.settings)
            self.data.mkdir(mode=0o700)
            try:
                result = await self._carry_out_safely(state)
                self._keep(result, state)
            finally:
                with anyio.CancelScope(shield=True):
                    await state.wait_until_burnt()
        except (HotdeskError, OSError) as e:
            result = replace(result, failure=result.failure or shorten(str(e)))
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return result

    async def _carry_out_safely(self, state: StateDirectory) -> TaskResult:
        try:
            return await self._carry_out(state)
        except (HotdeskError, OSError) as e:
            return TaskResult(self.task.name, self.seed, "broken", failure=shorten(str(e)))

    async def _carry_out(self, state: StateDirectory) -> TaskResult:
        self._say("generating")
        await generate(self.task, self.seed, state, self.data)
        async with serve_site(self.task, state, self.evaluation.settings, self.data):
            self._say("working")
            output = self.output = await self._work(state)
        found = await self._grade(state, output)
        figures = score_job(output.events)
        recording = self.evaluation.options.worker.get_recording(self.task.format_label(self.seed))
        if recording is not None:
            figures = add_recorded_usage(figures, record.read_lines(recording))
        return judge(self.task.name, self.seed, figures, found, output.seconds)

    async def _work(self, state: StateDirectory) -> JobOutput:
        options = self.evaluation.options
        words = options.worker.build_arguments(self.task, self.task.format_label(self.seed))
        seconds = 60.0 * (options.minutes or self.task.file.minutes)
        return await carry_out(state, self.data / "brief", self.out, words, seconds)

    async def _grade(self, state: StateDirectory, output: JobOutput) -> Grade | None:
        if not output.paths:
            return None
        self._say("grading")
        lay_out(self.data, output.paths)
        return await grade(self.task, state, self.data)

    def _keep(self, result: TaskResult, state: StateDirectory) -> None:
        if self.evaluation.options.out is None:
            return
        self.out.mkdir(exist_ok=True)
        summary = json.dumps(result_to_json(result), indent=1).encode() + b"\n"
        events = b"".join(line + b"\n" for line in self.output.lines)
        logs = {log.name: log.read_bytes() for log in state.folder.glob("*.log")}
        for name, data in {"result.json": summary, "events.jsonl": events, **logs}.items():
            descriptor = os.open(self.out / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)

    def _say(self, what: str) -> None:
        self.evaluation.say(make_printable(f"{self.task.name} seed {self.seed}: {what}"))


@contextmanager
def _scratch_folder() -> Iterator[Path]:
    """Yield a folder for the runs' state directories; remove it at the end."""
    folder = Path(tempfile.mkdtemp(prefix="hotdesk-eval-"))
    folder.chmod(0o711)  # desks' user ids must be able to traverse it
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
