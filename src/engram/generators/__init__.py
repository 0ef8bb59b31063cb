"""What stands in for old data: generators, which know nothing of tasks."""
