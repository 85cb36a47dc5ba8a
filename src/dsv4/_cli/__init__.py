"""The command `dsv4`: one file for each subcommand. All input and output of the toolkit is here."""
