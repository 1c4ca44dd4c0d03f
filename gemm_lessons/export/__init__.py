"""Taking a lesson home: a folder with a program of its own, for a GPU machine without this kit."""
