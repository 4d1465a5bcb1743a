"""The errors a user can cause. A programmer's mistake is an assert, never one of these.

Every message has four parts: where, what was found, what was expected, what to do. The command line
prints it without a traceback and exits with code 2.
"""

EXIT_CODE_USER_ERROR = 2


class ProActError(Exception):
    """A mistake in the user's input, told so that it can be mended.

    Args:
        where: the place: `file:line`, a stream id, a recipe key or a command-line option.
        found: what stands there.
        expected: what would have been right.
        remedy: what to do about it, as an imperative sentence.
    """

    def __init__(self, where: str, found: str, expected: str, remedy: str):
        self.where, self.found, self.expected, self.remedy = where, found, expected, remedy
        super().__init__(f"{where}: found {found}; expected {expected}. {remedy}")

    def __reduce__(self):
        return type(self), (self.where, self.found, self.expected, self.remedy)


class DataError(ProActError):
    """A line, a file or a video that breaks its contract."""


class RecipeError(ProActError):
    """A recipe key that is unknown, mistyped, out of range or at odds with another one."""


class VideoError(ProActError):
    """A video that cannot be decoded as asked."""


class RunError(ProActError):
    """A run folder, checkpoint or environment that does not fit what was asked of it."""
