"""Planning (stand-in)."""
async def make_plan(ask, task, job, log, rounds=3): raise NotImplementedError
