"""The command line: parse arguments, call a command, return an exit code.

    words --app.app_for--> Typer app with one command --> its function in a module of this room --> exit code

- ``commands``: the table of commands; ``app``: the Typer app, and the exit codes of failures
- ``options``: options that several commands share; ``launch``: those that describe a launch; ``guard``: commands that
  run kernels, in a child process
- ``learn``, ``practice``: from lesson to lesson; drills, predictions and bugs
- ``run``, ``check``, ``watch``, ``view``, ``compare``, ``inspect``, ``tune``, ``export``, ``site``, ``init``: the
  commands of these names; ``gpu``: ``bench`` and ``profile``; ``about``: ``doctor`` and ``version``
- ``dev``, ``grade``: for teachers
"""

forking = False  # whether the command line owns this process, so that it may run kernels in a child (``guard``)
