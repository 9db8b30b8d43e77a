"""Runs a command on a terminal of 80 columns: terminal.py SCREEN [SIGNAL SECONDS] -- COMMAND...

SCREEN gets every byte that is shown. With SIGNAL, the command is sent it so many seconds after it began. Ends with the
command's exit code. As a module it reads a screen: `kept` are the lines that stay, `live` those that were erased again.
"""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

ERASE = "\r\x1b[K"


def read(path):
    """(kept, live) of a screen."""
    kept, live = [], []
    for line in open(path, encoding="utf-8", newline="", errors="replace").read().replace("\r\n", "\n").split("\n"):
        *erased, last = line.split(ERASE)
        live += [text for text in erased if text]
        kept.append(last)
    return kept, live


def main():
    split = sys.argv.index("--")
    screen, stop = sys.argv[1], sys.argv[2:split]
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.execvp(sys.argv[split + 1], sys.argv[split + 1 :])
    began, sent = time.monotonic(), not stop
    with open(screen, "wb") as out:
        while True:
            if not sent and time.monotonic() - began >= float(stop[1]):
                os.kill(pid, getattr(signal, "SIG" + stop[0]))
                sent = True
            if not select.select([terminal], [], [], 0.02)[0]:
                continue
            try:
                data = os.read(terminal, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            out.write(data)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()
