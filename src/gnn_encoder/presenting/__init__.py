"""Tables and figures. One function makes each of them, for plots/, for the report's page and for the terminal alike."""
