"""Do both engines follow the same kernel? Asked again, word by word, where their sums differ."""
