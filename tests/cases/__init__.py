"""What went wrong for users of other tile languages, each as a test with its right value."""
