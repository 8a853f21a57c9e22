"""`python -m detection.ported`."""

from detection.ported.command import ported

if __name__ == "__main__":  # a worker imports this too
    ported(prog_name="python -m detection.ported")
