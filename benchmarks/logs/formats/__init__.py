"""One module for each log format; see `logs.reading` for what it holds."""
