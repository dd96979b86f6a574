"""A smolagents agent whose code runs at a desk: to smolagents it is a sandbox of E2B's.

    pip install "smolagents[e2b,openai]"
    export E2B_API_KEY=e2b_… E2B_API_URL=http://127.0.0.1:3700 E2B_SANDBOX_URL=http://127.0.0.1:3700
    python smolagents_e2b.py "Which Linux runs here, and what is the sum of the first hundred primes?"

A `hotdesk serve` answers there, and has the image `code-interpreter-v1`. MODEL is a model of OpenAI's, or of whoever
answers at OPENAI_BASE_URL, and OPENAI_API_KEY stands in the environment.
"""

from __future__ import annotations

import os
import sys

from smolagents import CodeAgent, OpenAIModel

LONGEST = 3600  # seconds after which the desk ends, whatever happens to this program


def main(task: str) -> None:
    """Have the agent do the task, and print the answer; the desk burns at the end of `with`."""
    model = OpenAIModel(os.environ.get("MODEL", "gpt-5"))
    with CodeAgent([], model, executor_type="e2b", executor_kwargs={"timeout": LONGEST}) as agent:
        answer = agent.run(task)
    print(answer)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "Which Linux runs here, and how much memory has it?")
