"""Runs the command line as `python -m tombola.cli`."""

import sys

from tombola.cli import main

sys.exit(main())
