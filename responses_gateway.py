"""`python -m responses_gateway` is the command `responses-gateway`."""

from gateway.cli.commands import main

if __name__ == "__main__":
    main()
