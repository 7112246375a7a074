"""What framework lines that speak one API share, by the name of the API (`framework.json`)."""
