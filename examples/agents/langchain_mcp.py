"""A LangChain agent at a desk: its tools are hotdesk's, over MCP.

    pip install langchain langchain-openai langchain-mcp-adapters
    python langchain_mcp.py "Which Linux runs here, and what is the sum of the first hundred primes?"

MODEL is any that LangChain knows, and its provider's key stands in the environment. With HOTDESK_URL and HOTDESK_KEY
the desk is one of a `hotdesk serve`; without them `hotdesk mcp` is started here, which needs root.
"""

from __future__ import annotations

import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.sessions import Connection
from langchain_mcp_adapters.tools import load_mcp_tools

DESK = ["hotdesk", "mcp", "--image", "base", "--allow", "pypi"]  # as an ordinary user: "sudo", "-n" before it


def desk() -> Connection:
    """Return the connection to a desk's tools; the desk opens when one is first used."""
    if url := os.environ.get("HOTDESK_URL"):
        headers = {"Authorization": f"Bearer {os.environ['HOTDESK_KEY']}"}
        return {"transport": "streamable_http", "url": f"{url}/mcp", "headers": headers}
    return {"transport": "stdio", "command": DESK[0], "args": DESK[1:]}


async def main(task: str) -> None:
    """Have the agent do the task, and print the answer; the desk burns at the end of `async with`."""
    client = MultiServerMCPClient({"desk": desk()})
    async with client.session("desk") as session:  # `client.get_tools()` would open another desk for every call
        agent = create_agent(os.environ.get("MODEL", "openai:gpt-5"), await load_mcp_tools(session))
        done = await agent.ainvoke({"messages": [{"role": "user", "content": task}]})
    print(done["messages"][-1].text)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "Which Linux runs here, and how much memory has it?"))
