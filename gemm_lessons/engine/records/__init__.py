"""Records that the rooms of the engine hand to each other, and the types of numbers in them."""
