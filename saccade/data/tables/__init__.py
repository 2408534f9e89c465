"""Tables: reading CSV, column types and feature encoding."""
