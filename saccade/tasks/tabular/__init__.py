"""Tables: predict one column from the others, a number or a class."""
