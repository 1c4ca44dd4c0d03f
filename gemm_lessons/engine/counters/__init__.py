"""What a launch did, in Nsight Compute's names, counted on the machine code."""
