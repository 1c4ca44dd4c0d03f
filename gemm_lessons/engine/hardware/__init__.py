"""What GPUs are: data sheets, and how many blocks fit on a multiprocessor."""
