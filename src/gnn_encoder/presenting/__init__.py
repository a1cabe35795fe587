"""Tables, figures and the report's page. One function makes each table or figure, wherever it is shown."""
