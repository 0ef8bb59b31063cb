"""What people look at: tables and pictures of what is stored, and nothing else."""
