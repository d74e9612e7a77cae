"""Run folders on disk: files, locks, checksums, provenance."""
