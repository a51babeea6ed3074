"""``python -m rlx``: the command line."""

import sys

from rlx.cli import main

sys.exit(main())
