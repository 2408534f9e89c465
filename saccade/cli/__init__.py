"""The command line: argv in, answers out, exit code."""
