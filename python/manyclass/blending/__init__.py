"""What rows held out of training say of trained models: scales and shares of their scores, temperatures, texts."""
