"""Export a lesson as a stand-alone program, for a GPU machine without this kit."""
