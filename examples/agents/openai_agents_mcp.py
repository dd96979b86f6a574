"""An agent of OpenAI's Agents SDK at a desk: its tools are hotdesk's, over MCP.

    pip install openai-agents
    python openai_agents_mcp.py "Which Linux runs here, and what is the sum of the first hundred primes?"

MODEL is a model of OpenAI's, and OPENAI_API_KEY stands in the environment. With HOTDESK_URL and HOTDESK_KEY the desk is
one of a `hotdesk serve`; without them `hotdesk mcp` is started here, which needs root.
"""

from __future__ import annotations

import asyncio
import os
import sys

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp

ROLE = "You work at a computer of your own: use its tools, and say what they said."
DESK = ["hotdesk", "mcp", "--image", "base", "--allow", "pypi"]  # as an ordinary user: "sudo", "-n" before it
LONGEST = 600  # seconds a tool may take; the SDK's default of five is too short for a command


def desk() -> MCPServer:
    """Return the tools of a desk, which opens when one is first used."""
    if url := os.environ.get("HOTDESK_URL"):
        headers = {"Authorization": f"Bearer {os.environ['HOTDESK_KEY']}"}
        return MCPServerStreamableHttp(
            {"url": f"{url}/mcp", "headers": headers},
            client_session_timeout_seconds=LONGEST,
            cache_tools_list=True,
        )
    return MCPServerStdio(
        {"command": DESK[0], "args": DESK[1:]}, client_session_timeout_seconds=LONGEST, cache_tools_list=True
    )


async def main(task: str) -> None:
    """Have the agent do the task, and print the answer; the desk burns at the end of `async with`."""
    set_tracing_disabled(True)  # otherwise everything is also sent to OpenAI's traces
    async with desk() as tools:
        agent = Agent(name="Worker", instructions=ROLE, mcp_servers=[tools], model=os.environ.get("MODEL"))
        done = await Runner.run(agent, task, max_turns=30)
    print(done.final_output)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "Which Linux runs here, and how much memory has it?"))
