"""What a message costs here, beside what it costs with the official SDKs, and with trio and orjson alone.

Every row compares programs that do the same work in processes of their own, over real pipes, with typed objects at the
application and all checks on. They are run in turns, A B C A B C, and the medians compared. Of an agent, the cost is
measured by a client that decodes nothing; of a client, with an agent that spells everything beforehand.

It reads memory from /proc, so it wants Linux. Nothing is installed: the Python SDK comes with the extra ``test``, the
TypeScript SDK is where the tests have fetched it. A row whose target was missed, or could not be measured, is named at
the end, and the exit status is 1.
"""
