"""Built systems over HTTP: search, explanations and a page for people."""
