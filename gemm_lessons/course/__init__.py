"""The course: lessons, their arithmetic and their files, the problem that a lesson poses, the learner's progress."""
