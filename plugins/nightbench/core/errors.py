"""The errors that a user can do something about."""


class UserError(Exception):
    """Something that the user can mend; the command prints it and ends without a traceback.

    The message names the place (file, line, key or host), the value found, what was expected, and
    what to do.
    """
