"""`python -m detection.families`."""

from detection.families.command import families

if __name__ == "__main__":  # a worker imports this too
    families(prog_name="python -m detection.families")
