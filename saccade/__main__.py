"""`python -m saccade` is `saccade`."""

from saccade.cli.main import main

if __name__ == "__main__":
    main()
