"""One JSON file of templates or one module for each log format; `logs.reading` describes both."""
