#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""replay.py PROGRAM: gives the recorded cases to printing_forms; the end is its end."""
import gzip
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).parent
cases = gzip.decompress((here / "recorded.jsonl.gz").read_bytes())
sys.exit(subprocess.run([sys.argv[1], here / "objects.json"], input=cases, check=False).returncode)
