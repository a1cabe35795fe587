"""Built systems over HTTP: search, explanations, query embeddings and a page for people."""
