"""A pydantic-ai agent at a desk: its tools are hotdesk's, over MCP.

    pip install "pydantic-ai-slim[openai,mcp]"
    python pydantic_ai_mcp.py "Which Linux runs here, and what is the sum of the first hundred primes?"

MODEL is any that pydantic-ai knows, and its provider's key stands in the environment. With HOTDESK_URL and HOTDESK_KEY
the desk is one of a `hotdesk serve`; without them `hotdesk mcp` is started here, which needs root.
"""

from __future__ import annotations

import asyncio
import os
import sys

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

DESK = ["hotdesk", "mcp", "--image", "base", "--allow", "pypi"]  # as an ordinary user: "sudo", "-n" before it
PATIENCE = {"init_timeout": 60, "read_timeout": 600}  # seconds until the tools are ready, and for one call


def desk() -> MCPToolset:
    """Return the tools of a desk, which opens when one is first used."""
    if url := os.environ.get("HOTDESK_URL"):
        headers = {"Authorization": f"Bearer {os.environ['HOTDESK_KEY']}"}
        return MCPToolset(f"{url}/mcp", headers=headers, include_instructions=True, **PATIENCE)
    started = StdioTransport(DESK[0], DESK[1:], keep_alive=False)  # if kept alive, the desk would outlast the agent
    return MCPToolset(started, include_instructions=True, **PATIENCE)


async def main(task: str) -> None:
    """Have the agent do the task, and print the answer; the desk burns at the end of `async with`."""
    agent = Agent(os.environ.get("MODEL", "openai:gpt-5"), toolsets=[desk()])
    async with agent:
        done = await agent.run(task)
    print(done.output)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "Which Linux runs here, and how much memory has it?"))
