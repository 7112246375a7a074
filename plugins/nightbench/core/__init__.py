"""The words and the arithmetic of Nightbench: pure, standard library only."""
