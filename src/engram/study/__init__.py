"""Studies: one recipe on one data set with one seed, and what is measured of it."""
