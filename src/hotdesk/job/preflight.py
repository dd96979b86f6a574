"""Preflight (stand-in)."""
async def preflight(plan, job, machine): return (), ()
