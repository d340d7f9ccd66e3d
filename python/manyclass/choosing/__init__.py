"""What is left open: recipes, and plans made of them and of the parameters."""
