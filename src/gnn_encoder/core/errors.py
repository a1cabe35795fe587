"""The error for a user's mistake, told in one line."""


class UserError(ValueError):
    """A mistake in data, parameters or files that the user can mend.

    The message is one line: the place (file, row, column or parameter), the value received, the rule, the cure.
    `gnn_encoder.core.stage.run` and the command line print it without a traceback and exit with status 2.
    """
