"""A taskset of the harness `verifiers` with one task, whose reference answer runs in the sandbox."""

from __future__ import annotations

import asyncio

import verifiers.v1 as vf

WORDS, SORTED = "pear\napple\nquince\n", b"apple\npear\nquince\n"


class TinyWordsTask(vf.Task[vf.TaskData]):
    """A task: sort three words."""

    NEEDS_CONTAINER = True

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Upload the words."""
        await runtime.write("in/words.txt", WORDS.encode())

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Run the reference answer in every way the runtime has to run a program."""
        assert (await runtime.run(["sh", "-c", "echo out; echo err >&2; exit 3"], {})).exit_code == 3
        done = await runtime.run_program(["sh", "-c", 'sort in/words.txt >"$ANSWER"; pwd'], {"ANSWER": "answer.txt"})
        assert (done.exit_code, done.stdout) == (0, "/app\n"), done
        await runtime.run_background(["sh", "-c", "cat answer.txt >copied.txt; sleep 60"], {}, "/tmp/log")
        process = await runtime.open_process(["cat"], {})
        await process.write(b"told\xff")
        assert await anext(aiter(process.stdout)) == b"told\xff"
        await process.kill()
        assert await process.wait() != 0
        while await runtime.read("copied.txt") != SORTED:
            await asyncio.sleep(0.05)
        return bool(await runtime.read("answer.txt") == SORTED)

    @vf.reward(weight=1.0)
    async def is_sorted(self, runtime: vf.Runtime) -> float:
        """Score the file in the sandbox; an untouched sandbox has none."""
        done = await runtime.run(["cat", "answer.txt"], {})
        return float(done.stdout.encode() == SORTED)


class TinyWordsTaskset(vf.Taskset[TinyWordsTask, vf.TasksetConfig]):
    """The taskset with one task."""

    def load(self) -> list[TinyWordsTask]:
        data = vf.TaskData(prompt="Sort the words of in/words.txt.", image="debian:12", network_allow=["example.org"])
        return [TinyWordsTask(data, self.config.task)]


__all__ = ["TinyWordsTaskset"]
