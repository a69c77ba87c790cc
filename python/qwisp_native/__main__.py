"""`python -m qwisp_native` is `qwisp-native`."""

import sys

from .cli import main

sys.exit(main())
