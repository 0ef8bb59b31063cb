"""Engram's own errors: each is one sentence that names what is wrong and the way out."""


class EngramError(ValueError):
    """The base of all errors that Engram raises itself."""


class InputError(EngramError):
    """Arrays, labels or settings that cannot be used."""


class DataError(EngramError):
    """A data set's file that is missing, truncated or makes no sense."""


class DownloadError(DataError):
    """A data set that could not be downloaded."""


class FileError(EngramError):
    """A saved model or checkpoint that cannot be written or read."""
