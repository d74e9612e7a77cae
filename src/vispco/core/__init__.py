"""Plain data that everything else shares: schedules, token layouts, registries, errors."""
