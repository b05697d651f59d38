"""What every package uses: registry, cache, files, YAML, progress. It imports nothing of ours."""
