"""vispco inside other people's evaluation harnesses."""
