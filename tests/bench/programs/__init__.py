"""The programs that the benchmark runs: agents, and clients that drive an agent and print what they measured.

Each is its own process, started as ``python -m tests.bench.programs.NAME`` or, for the TypeScript SDK's, by node.

A client is run as ``NAME TASK SIZE -- AGENT...`` and prints one JSON object. The tasks are ``updates COUNT`` (chunks of
text in one turn), ``record FILE`` (a recorded turn), ``large BYTES`` (one update), ``prompt BYTES`` (one prompt) and
``requests COUNT``. An agent takes the first three from the prompt, and answers anything else at once. The updates of a
recorded turn are read when the agent starts, from the file that ``--record FILE`` names.
"""
