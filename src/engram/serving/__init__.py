"""A model over HTTP: predictions for everybody, learning for whoever has the token."""
