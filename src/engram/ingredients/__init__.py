"""What can be added to training by gradient, one idea a file."""
