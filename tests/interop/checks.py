"""Calls of the program and expectations, for the comparisons of this folder."""
import json
import subprocess
import sys


def expect(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def run(program, *words, text=None):
    """The JSON that the program prints."""
    done = subprocess.run([program, *words, "--json"], capture_output=True, text=True, input=text)
    expect(done.returncode == 0, f"{' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)
