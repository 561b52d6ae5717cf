"""From the weights of one framework to those of the other."""
