"""What is left open: rules and trials on the user's own rows, and plans made of parameters."""
