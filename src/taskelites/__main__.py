"""`python -m taskelites` is the command `taskelites`."""

import sys

from taskelites.cli import main

sys.exit(main())
