"""`python -m gateway` is `responses-gateway`."""

from gateway.cli.commands import main

if __name__ == "__main__":
    main()
