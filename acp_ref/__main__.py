"""``python -m acp_ref``: the same as ``acp-ref``."""

from __future__ import annotations

import sys

from acp_ref.cli import main

if __name__ == "__main__":
    sys.exit(main())
