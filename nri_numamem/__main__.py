"""``python -m nri_numamem`` is the command ``nri-numamem``."""

import sys

from nri_numamem.cli.main import main

sys.exit(main())
