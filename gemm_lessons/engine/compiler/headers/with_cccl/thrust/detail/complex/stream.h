// Printing of complex numbers is the host's.
