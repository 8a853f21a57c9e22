"""How Java is started here: each run ends before optimised code, or threads that collect garbage, would pay."""

FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
JAVA = ("java", *FLAGS)
JAVAC = ("javac", *(f"-J{flag}" for flag in FLAGS))
