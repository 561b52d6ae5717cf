"""What a layer computed, found from its own inputs, parameters and output on one side."""
