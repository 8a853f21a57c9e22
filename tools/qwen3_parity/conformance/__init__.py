"""A port that runs as a process: asked case by case over a pipe, judged as files are."""
