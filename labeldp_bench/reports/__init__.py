"""Tables, figures and pages: pure functions of records."""
